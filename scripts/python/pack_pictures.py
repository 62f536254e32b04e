"""Makes pictures small, by a palette for each.

pack_pictures.py WORK.json, with {"stills": [{"from", "to"}], "films": [{"frames", "seconds", "to"}]}: paths, and each frame's seconds.
"""
import json
import sys

import numpy as np
from PIL import Image

# Screenshots have more colours than figures, most of them at the edges of letters.
STILL_COLORS = 128
FILM_COLORS = 96
PAUSE_MILLISECONDS = 800  # before the film begins again


def with_palette(images, colors):
    """Gives all images one palette: their most frequent colours, so that the colours of marks stay exact."""
    channels = [np.asarray(image.convert("RGB"), dtype=np.int64) for image in images]
    pixels = np.concatenate([rgb.reshape(-1, 3) @ (1 << 16, 1 << 8, 1) for rgb in channels])
    found, places, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    found = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    palette = found[np.argsort(-counts, kind="stable")[:colors]]
    nearest = np.concatenate([distances(part, palette).argmin(axis=1) for part in np.array_split(found, len(found) // 4096 + 1)])
    starts = np.cumsum([image.width * image.height for image in images])[:-1]
    packed = []
    for image, part in zip(images, np.split(nearest[places.reshape(-1)].astype(np.uint8), starts)):
        indexed = Image.frombytes("P", image.size, part.tobytes())
        indexed.putpalette(palette.astype(np.uint8).tobytes())
        packed.append(indexed)
    return packed


def distances(colors, palette):
    return ((colors[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2)


def pack_still(source, target):
    [image] = with_palette([Image.open(source)], STILL_COLORS)
    image.save(target, optimize=True)


def pack_film(frames, seconds, target):
    # All frames share a palette, so that parts that do not change are equal, and are stored once.
    images = with_palette([Image.open(frame) for frame in frames], FILM_COLORS)
    first, *rest = [image.convert("RGB") for image in images]
    durations = [round(second * 1000) for second in seconds]
    durations[-1] += PAUSE_MILLISECONDS
    first.save(target, save_all=True, append_images=rest, duration=durations, loop=0, lossless=True, quality=100, method=4)


with open(sys.argv[1], encoding="utf-8") as file:
    work = json.load(file)
for still in work.get("stills", []):
    pack_still(still["from"], still["to"])
for film in work.get("films", []):
    pack_film(film["frames"], film["seconds"], film["to"])
