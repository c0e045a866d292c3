"""DeepCAM: storms and rivers of moist air in climate simulations, by segmentation with DeepLabv3+."""
