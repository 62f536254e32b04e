"""
Records what torch, tokenizers, pyarrow and Pillow make of the files in test/data/files, and writes these files.

Run with torch 2.13, tokenizers 0.23, pyarrow 26 and Pillow 13: python test/data/data_reference.py
The tokenizer is trained on the declaration files of the installed TypeScript package.
"""

import glob
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.utils.data import DistributedSampler, random_split

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "files")


def samplers():
    cases = []
    for length, world in [(10, 1), (10, 2), (10, 4), (3, 4), (1, 4), (703, 4)]:
        for shuffle in [True, False]:
            for drop_last in [False, True]:
                if drop_last and length < world:
                    continue
                ranks = []
                for rank in range(world):
                    sampler = DistributedSampler(
                        range(length), num_replicas=world, rank=rank, shuffle=shuffle, seed=3, drop_last=drop_last
                    )
                    epochs = []
                    for epoch in range(2):
                        sampler.set_epoch(epoch)
                        epochs.append(list(sampler))
                    ranks.append(epochs)
                cases.append(dict(length=length, world=world, shuffle=shuffle, dropLast=drop_last, seed=3, ranks=ranks))
    return cases


def splits():
    cases = []
    for length, share in [(10, 0.1), (29, 0.25), (7, 0.5)]:
        train, validation = random_split(range(length), [1 - share, share], torch.Generator().manual_seed(5))
        cases.append(dict(length=length, share=share, seed=5, train=train.indices, validation=validation.indices))
    return cases


TEXTS = [
    "interface Array<T> {\n    concat(...items: T[]): T[];\n}\n",
    "Größe, naïve, 数据 and \U0001f600\r\n\r\n  two  blanks\t",
    "",
    "a<|endoftext|>b",
]


def tokens():
    sources = sorted(glob.glob(os.path.join(HERE, "../../node_modules/typescript/lib/lib.*.d.ts")))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # Whole texts, because `train` reads files line by line and then merges no newline with blanks.
    tokenizer.train_from_iterator([open(source, encoding="utf8").read() for source in sources[:20]], trainer)
    tokenizer.save(os.path.join(FILES, "tokenizer.json"), pretty=False)
    return [dict(text=text, ids=tokenizer.encode(text, add_special_tokens=False).ids) for text in TEXTS]


def tables():
    rows = 7
    table = pa.table(
        {
            "text": TEXTS[:1] * rows,
            "pixels": [[float(row), row / 4] for row in range(rows)],
            "age": pa.array([20 + row for row in range(rows)], pa.int64()),
            "word": [["no", "yes", "maybe"][row % 3] for row in range(rows)],
        }
    )
    for codec in ["snappy", "zstd", "gzip"]:
        path = os.path.join(FILES, f"rows-{codec}.parquet")
        parquet.write_table(table, path, compression=codec, row_group_size=4)
    return table.to_pylist()


def images():
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:12, 0:10]
    smooth = np.stack([x * 20, y * 18, (x + y) * 9], -1).astype(np.uint8)
    noise = random.integers(0, 256, (12, 10, 3), dtype=np.uint8)
    pictures = {
        "ants/noise.png": Image.fromarray(noise),
        "ants/smooth.jpg": Image.fromarray(smooth),
        "bees/grey.png": Image.fromarray(noise[:, :, 0]),
    }
    recorded = {}
    for name, picture in pictures.items():
        path = os.path.join(FILES, "images", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        picture.save(path, **({"quality": 95} if name.endswith("jpg") else {}))
        pixels = np.asarray(Image.open(path).convert("RGB"))
        # torchvision's ToTensor: channels first, divided by 255.
        recorded[name] = pixels.transpose(2, 0, 1).reshape(-1).tolist()
    return recorded


if __name__ == "__main__":
    os.makedirs(FILES, exist_ok=True)
    recorded = dict(
        torch=torch.__version__, samplers=samplers(), splits=splits(), tokens=tokens(), rows=tables(), images=images()
    )
    with open(os.path.join(HERE, "data_reference.json"), "w") as file:
        json.dump(recorded, file, ensure_ascii=False)
        file.write("\n")
