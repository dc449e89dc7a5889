"""Datasets for PyTorch. Importing this module imports torch.

dataset = PointCloudDataset("data/out/demo", split="train", points=2048)
loader = DataLoader(dataset, batch_size=32, num_workers=4, collate_fn=dataset.collate)
"""

from stages.shard.backends.torch_data import (
    PointCloudDataset,
    PointCloudStream,
    collate_fixed,
    collate_ragged,
)  # fmt: skip

__all__ = ["PointCloudDataset", "PointCloudStream", "collate_fixed", "collate_ragged"]
