"""Datasets for PyTorch. Importing this module imports torch.

dataset = PointCloudDataset("data/out/demo", split="train", points=2048)
loader = PointCloudLoader(dataset, batch_size=32, num_workers=4)
"""

from stages.shard.backends.torch_data import PointCloudDataset, collate_fixed, collate_ragged
from stages.shard.backends.torch_loader import PointCloudLoader

__all__ = ["PointCloudDataset", "PointCloudLoader", "collate_fixed", "collate_ragged"]
