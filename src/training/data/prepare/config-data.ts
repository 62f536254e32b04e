import { existsSync } from 'node:fs';
import { isNames, isVideoModel, modelShape, ownData, type TrainConfig } from '../../../config';
import { findFiles } from '../files/find-files';
import { filesOfVideo } from '../files/video-frames';
import { listedVideos, listOfVideos } from '../files/video-list';
import type { DataToPrepare } from '../prepared';
import { videoSize } from '../video-coder';
import { dataError } from './prepare-parts';
import { type TextCodec, textCodecOf, tokenizerFiles } from './tokenizer';

/**
 * Returns a config's own data in the form that its model needs; null for built-in data. If the data have no setting `tokenizer`, it
 * becomes the tokenizer in the model's folder. Throws: CONFIG for a model that cannot train on videos.
 */
export function dataToPrepare(config: TrainConfig, baseDir: string): DataToPrepare | null {
  const data = ownData(config.data);
  if (data === null) return null;
  const own = { ...data, tokenizer: data.tokenizer ?? tokenizerOfModel(config, baseDir) };
  const shape = modelShape(config);
  if (isVideoModel(shape))
    return { ...own, videos: { size: videoSize(shape, 'data'), textLen: shape.textLen } };
  // A row of a conversation has as many tokens as the model's sequence.
  return (data.instructions ?? data.preferences) === undefined || !('seq' in shape)
    ? own
    : { ...own, seq: shape.seq };
}

/**
 * Returns the codec of a config's texts: the config's tokenizer, the tokenizer in the model's folder, or bytes. Throws: CONFIG.
 */
export function codecOf(config: TrainConfig, baseDir: string): Promise<TextCodec> {
  const tokenizer = ownData(config.data)?.tokenizer ?? tokenizerOfModel(config, baseDir);
  return textCodecOf({ tokenizer, eosToken: null }, baseDir);
}

/**
 * Returns the files on which prepared data depend; null for data without files. Throws: CONFIG for files that are not there, IO for
 * those that cannot be read.
 */
export async function filesOfData(data: DataToPrepare, baseDir: string): Promise<readonly string[] | null> {
  try {
    return await filesOf(data, baseDir);
  } catch (error) {
    throw dataError(error);
  }
}

async function filesOf(data: DataToPrepare, baseDir: string): Promise<readonly string[] | null> {
  const { format, validation, tokenizer } = data;
  const path = data.instructions ?? data.preferences ?? data.path;
  if (path === undefined) return null;
  const paths = [path, isNames(validation) ? validation : []].flat();
  const files =
    data.videos === undefined
      ? findFiles({ paths, format, baseDir }).files
      : await filesOfLists(
          paths.map((list) => listOfVideos(list, baseDir)),
          data,
        );
  return [...files, ...(tokenizer === undefined ? [] : tokenizerFiles(tokenizer, baseDir))];
}

/** Returns lists of videos, and the files of the videos that they name, of whose frames only the first ones are read. */
async function filesOfLists(lists: readonly string[], data: DataToPrepare): Promise<string[]> {
  const files = [...lists];
  for (const list of lists)
    for await (const video of listedVideos(list, data))
      files.push(...filesOfVideo(video).slice(0, data.videos?.size[0]));
  return files;
}

/** Returns the model's folder, if it has a tokenizer. */
function tokenizerOfModel(config: TrainConfig, baseDir: string): string | undefined {
  const shape = modelShape(config);
  const from = 'from' in shape ? shape.from : undefined;
  const [file] = from === undefined ? [] : tokenizerFiles(from, baseDir);
  return file !== undefined && existsSync(file) ? from : undefined;
}
