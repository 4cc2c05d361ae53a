"""Run the study: ``python -m experiments.knapsack``; see README.md."""

if __name__ == "__main__":  # processes that solve import this file, too, and should start fast
    from experiments.framework import main
    from experiments.knapsack.study import STUDY

    main(STUDY)
