import { dirname, extname, join, resolve } from 'node:path';
import type { OwnData } from '../../../config';
import { ConfigError, ownValue, shortened, statIfThere } from '../../../core';
import { findFiles } from './find-files';
import { refusePointer } from './lfs-pointer';
import { type FileRecord, noColumn, recordsOf } from './records';
import type { VideoPlace } from './video-frames';

/** A video and its text. */
export interface ListedVideo extends VideoPlace {
  readonly prompt: string;
}

/** The names of the files that list the videos of a folder. Source: DiffSynth-Studio's example_video_dataset. */
const LISTS = ['metadata.csv', 'metadata.tsv', 'metadata.jsonl'] as const;

/** Returns the file that lists videos: the path itself, or the file in the folder. Throws: CONFIG if the folder has none. */
export function listOfVideos(path: string, baseDir: string): string {
  const full = resolve(baseDir, path);
  if (statIfThere(full)?.isDirectory() !== true) {
    const { format, files } = findFiles({ paths: path, format: undefined, baseDir });
    if (format === 'csv' || format === 'jsonl') return files[0] ?? full;
    throw new ConfigError(
      `data: ${path} is no list of videos; name a folder with ${LISTS[0]}, or a CSV or JSONL file with the columns video and prompt`,
    );
  }
  const list = LISTS.map((name) => join(full, name)).find((file) => statIfThere(file)?.isFile() === true);
  if (list !== undefined) return list;
  throw new ConfigError(
    `data: the folder ${path} has no ${LISTS[0]}; write one with the header video,prompt and a row per video, such as a.mp4,"a red ball rolls"`,
  );
}

/**
 * Reads the rows of a list of videos. Paths begin in the list's folder. Throws: CONFIG naming file and line, for a row without
 * a video or a text.
 */
export async function* listedVideos(
  list: string,
  data: Pick<OwnData, 'x' | 'text'>,
): AsyncGenerator<ListedVideo> {
  refusePointer(list);
  const video = typeof data.x === 'string' ? data.x : 'video';
  const format = /\.(csv|tsv)$/i.test(extname(list)) ? 'csv' : 'jsonl';
  const folder = dirname(list);
  let count = 0;
  for await (const record of recordsOf(list, format, [], () => undefined)) {
    const { values } = record;
    // 'text' is the default for files of texts; lists of videos usually have the column prompt.
    const column = data.text === 'text' && ('prompt' in values || !('text' in values)) ? 'prompt' : data.text;
    const prompt = textIn(record, column, 'text');
    const name = textIn(record, video, 'x');
    const path = resolve(folder, name);
    const stats = statIfThere(path);
    // A pipe could keep its reader waiting forever.
    if (stats?.isFile() !== true && stats?.isDirectory() !== true)
      throw new ConfigError(
        `data: ${record.place}: there is no file or folder ${shortened(name)} in ${folder}; correct the row, or copy the video there`,
        { file: path },
      );
    count++;
    yield { place: record.place, path, prompt };
  }
  if (count === 0)
    throw new ConfigError(`data: ${list} lists no videos; write a row per video below the header`);
}

/** Returns the text of a row's column. Throws: CONFIG if the row has none; `key` is the setting that names the column. */
function textIn({ place, values }: FileRecord, column: string, key: 'x' | 'text'): string {
  const value = ownValue(values, column);
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw noColumn(place, column, Object.keys(values), key);
}
