import sys

from movegrad._cli import main

sys.exit(main())
