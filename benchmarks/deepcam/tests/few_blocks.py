"""DeepCAM with few blocks and on small pictures, so that a test takes seconds: `python -m` of it is the program."""

from benchmarks.deepcam import config, model

SIZE = "192x288"
config.SIZES[SIZE] = (32, 48)
model.MIDDLE_BLOCKS = 1

if __name__ == "__main__":
    from benchmarks.common.run import leave
    from benchmarks.deepcam.train import main

    leave(main())
