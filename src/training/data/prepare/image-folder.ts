import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { basename, relative, sep } from 'node:path';
import type { OwnData } from '../../../config';
import { ConfigError } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import { type ImageSize, imageSizeOf } from '../files/image';
import type { ImageFiles, PreparedRows } from '../prepared';
import type { PrepareParts } from './prepare-parts';
import { rowsOf } from './rows';

/**
 * Lists the images of a folder. An image's class is the name of the first subfolder on its path; classes are numbered in
 * sorted order. Source: torchvision.datasets.ImageFolder. Throws: CONFIG for images outside of subfolders or of different sizes.
 */
export function prepareImages(data: OwnData, parts: PrepareParts): PreparedRows {
  const { name, seed, validationFiles } = parts;
  const train = imagesOf(data.size, parts.files, null);
  const { classes } = train;
  const validation = validationFiles && imagesOf(train.source.size, validationFiles, classes).source;
  return rowsOf(data, { name, classes, seed, digest: digestOf(train.source) }, train.source, validation);
}

/** Returns a hash that identifies images by their names, numbers of bytes and classes, without reading the images. */
function digestOf({ files, labels, size }: ImageFiles): string {
  const facts = files.map((file, i) => [basename(file), statSync(file).size, labels[i]]);
  return createHash('sha1')
    .update(JSON.stringify([size, facts]))
    .digest('hex');
}

function imagesOf(
  size: ImageSize | undefined,
  { files, folder }: FoundFiles,
  known: readonly string[] | null,
): { readonly source: ImageFiles; readonly classes: readonly string[] } {
  if (folder === null) {
    throw new ConfigError('data: images come from one folder that has a folder per class; name that folder');
  }
  const names = files.map((file) => classOf(file, folder));
  const classes = known ?? [...new Set(names)].sort();
  const labels = names.map((name, i) => {
    const label = classes.indexOf(name);
    if (label >= 0) return label;
    throw new ConfigError(
      `data.validation: ${files[i]} is of class ${name}, but the images to train on have only ${classes.join(', ')}; remove the folder`,
    );
  });
  return {
    source: { kind: 'images', numRows: files.length, size: size ?? commonSize(files), files, labels },
    classes,
  };
}

function classOf(file: string, folder: string): string {
  const [name = '', ...rest] = relative(folder, file).split(sep);
  if (rest.length > 0) return name;
  throw new ConfigError(
    `data: ${file} is in no class; move each image into a folder with the name of its class, such as ${folder}/cats/${name}`,
  );
}

function commonSize(files: readonly string[]): ImageSize {
  const [first = ''] = files;
  const size = sizeOf(first);
  for (const file of files) {
    const [rows, columns] = sizeOf(file);
    if (rows === size[0] && columns === size[1]) continue;
    throw new ConfigError(
      `data: ${file} has ${rows} x ${columns} pixels, but ${first} has ${size[0]} x ${size[1]}; scale all images with data: { path, size: [${size.join(', ')}] }`,
      { file },
    );
  }
  return size;
}

/** This number of bytes at a file's start nearly always contains the image's size. */
const HEAD = 2 ** 12;

function sizeOf(file: string): ImageSize {
  const head = Buffer.alloc(HEAD);
  const descriptor = openSync(file, 'r');
  let bytes: Buffer;
  try {
    bytes = head.subarray(0, readSync(descriptor, head, 0, HEAD, 0));
  } finally {
    closeSync(descriptor);
  }
  try {
    return imageSizeOf(file, bytes);
  } catch {
    // In a JPEG file, a long preview may come before the size.
    return imageSizeOf(file, readFileSync(file));
  }
}
