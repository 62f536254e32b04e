import { setImmediate } from 'node:timers/promises';
import { isNames } from '../../../config';
import { ConfigError, shortened } from '../../../core';
import { cropAndResize, type Frame } from '../files/crop-and-resize';
import { type DecodePlace, eachFrame } from '../files/video-frames';
import { type ListedVideo, listedVideos, listOfVideos } from '../files/video-list';
import type { DataToPrepare, PreparedVideos, VideoFiles, VideoForm } from '../prepared';
import { NumberFile } from './number-file';
import type { PrepareOptions } from './prepare-parts';
import { allWords, type PromptCodec, promptCodecOf } from './prompt-codec';
import { splitRows } from './rows';

/** The parts that the preparation of videos needs. */
type VideoParts = Pick<PrepareOptions, 'baseDir' | 'seed' | 'fileFor' | 'signal' | 'progress'>;

interface Written {
  readonly source: VideoFiles;
  readonly digest: string;
  /** The texts whose ends were cut off. */
  readonly cut: readonly string[];
}

/**
 * Decodes videos into the form that a model needs: their first frames, scaled and cut to the model's size, and the token ids of
 * their texts. Source: DiffSynth-Studio's UnifiedDataset. Throws: CONFIG naming the row and the video, IO.
 */
export async function prepareVideos(
  data: DataToPrepare & { readonly videos: VideoForm },
  parts: VideoParts,
): Promise<PreparedVideos> {
  const { baseDir, seed } = parts;
  const name = [data.path ?? []].flat().join(', ');
  const train = await videosIn(data, data.path ?? [], baseDir);
  const heldOut = isNames(data.validation) ? await videosIn(data, data.validation, baseDir) : null;
  const all = [...train, ...(heldOut ?? [])];
  const codec = await promptCodecOf(data, baseDir, allWords(all.map(({ prompt }) => prompt)));
  let done = 0;
  const writeAll = (videos: readonly ListedVideo[]): Promise<Written> =>
    written(videos, data.videos, codec, {
      ...parts,
      progress: () => parts.progress(name, ++done, all.length),
    });
  const { source, digest, cut } = await writeAll(train);
  const validation = heldOut && (await writeAll(heldOut));
  const { vocab, tokenizer, words } = codec;
  return {
    ...{ kind: 'videos', name, vocab, tokenizer, words, ...data.videos },
    ...splitRows(data, { digest, seed, unit: 'videos' }, source, validation?.source ?? null),
    notes: notesOf(`${all.length} texts of ${name}`, [...cut, ...(validation?.cut ?? [])], data.videos),
  };
}

async function videosIn(
  data: DataToPrepare,
  paths: string | readonly string[],
  baseDir: string,
): Promise<ListedVideo[]> {
  const lists = [paths].flat().map((path) => listOfVideos(path, baseDir));
  const videos: ListedVideo[] = [];
  for (const list of lists) for await (const video of listedVideos(list, data)) videos.push(video);
  return videos;
}

interface WriteParts extends Pick<VideoParts, 'baseDir' | 'fileFor' | 'signal'> {
  readonly progress: () => void;
}

async function written(
  videos: readonly ListedVideo[],
  { size, textLen }: VideoForm,
  codec: PromptCodec,
  { fileFor, progress, ...place }: WriteParts,
): Promise<Written> {
  const pixels = new NumberFile(fileFor('pixels'), Uint8Array);
  const tokens = new NumberFile(fileFor('tokens'), Uint32Array);
  const cut: string[] = [];
  try {
    for (const video of videos) {
      pixels.write(await pixelsOf(video, size, place));
      const { ids, isCut } = codec.encode(video.prompt, textLen);
      if (isCut) cut.push(video.prompt);
      tokens.write([...ids, ...new Array<number>(textLen - ids.length).fill(0)]);
      progress();
      // Other work of this thread has its turn between two videos, such as an interrupt.
      await setImmediate();
    }
  } finally {
    pixels.close();
    tokens.close();
  }
  const prompts = videos.map(({ prompt }) => prompt);
  return {
    source: { numRows: videos.length, pixels: pixels.path, tokens: tokens.path, prompts },
    digest: `${pixels.digest}:${tokens.digest}`,
    cut,
  };
}

/** Returns the values of a video: [3, frames, rows, columns]. */
async function pixelsOf(
  video: ListedVideo,
  [frames, rows, columns]: VideoForm['size'],
  place: DecodePlace,
): Promise<Uint8Array> {
  const values = new Uint8Array(3 * frames * rows * columns);
  const plane = rows * columns;
  let frame = 0;
  const take = (own: Frame): void => {
    const { pixels } = cropAndResize(own, rows, columns);
    for (let channel = 0; channel < 3; channel++) {
      const start = (channel * frames + frame) * plane;
      for (let i = 0; i < plane; i++) values[start + i] = pixels[3 * i + channel] ?? 0;
    }
    frame++;
  };
  const count = await eachFrame(video, frames, place, take);
  if (count === frames) return values;
  throw new ConfigError(
    `data: ${video.place}: ${video.path} has ${count} ${count === 1 ? 'frame' : 'frames'}, but a video of the model has ${frames}; give a longer video, remove the row, ` +
      'or give a model with fewer latent frames',
    { file: video.path },
  );
}

/** Says which texts are cut; `all` names them and says how many there are. */
function notesOf(all: string, [first, ...others]: readonly string[], { textLen }: VideoForm): string[] {
  if (first === undefined) return [];
  return [
    `data: ${1 + others.length} of ${all} have more than ${textLen} tokens (model.textLen), and their ends were cut off; ` +
      `the first is "${shortened(first)}"`,
  ];
}
