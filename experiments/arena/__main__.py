"""Run the arena: ``python -m experiments.arena``; see README.md."""

if __name__ == "__main__":
    from experiments.arena.study import STUDY
    from experiments.framework import main

    main(STUDY)
