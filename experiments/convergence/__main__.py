"""Run the study: ``python -m experiments.convergence``; see README.md."""

if __name__ == "__main__":  # processes that solve import this file, too, and should start fast
    from experiments.convergence.study import STUDY
    from experiments.framework import main

    main(STUDY)
