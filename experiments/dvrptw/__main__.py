"""Run the study: ``python -m experiments.dvrptw [COMMAND] [options]``; see README.md."""

if __name__ == "__main__":  # workers import this file, too, and should start fast
    from experiments.dvrptw.study import main

    main()
