"""Run the study: ``python -m experiments.recovery``; see README.md."""

if __name__ == "__main__":  # processes that solve import this file, too, and should start fast
    from experiments.framework import main
    from experiments.recovery.study import STUDY

    main(STUDY)
