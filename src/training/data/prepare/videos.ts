import { isNames } from '../../../config';
import { ConfigError, shortened } from '../../../core';
import { cropAndResize, type Frame } from '../files/crop-and-resize';
import { eachFrame } from '../files/video-frames';
import { type ListedVideo, listedVideos, listOfVideos } from '../files/video-list';
import type { DataToPrepare, PreparedVideos, VideoFiles, VideoForm } from '../prepared';
import { NumberFile } from './number-file';
import type { PrepareParts } from './prepare-parts';
import { allWords, type PromptCodec, promptCodecOf } from './prompt-codec';
import { splitRows } from './rows';

/** The parts that the preparation of videos needs. */
export interface VideoParts extends Pick<PrepareParts, 'baseDir' | 'seed' | 'fileFor'> {
  /** Gets the data's name, the number of videos that were decoded so far, and the number of all videos. */
  readonly progress: (name: string, done: number, total: number) => void;
}

interface Written {
  readonly source: VideoFiles;
  readonly digest: string;
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
  const { source, digest } = await writeAll(train);
  const validation = heldOut && (await writeAll(heldOut));
  const { vocab, tokenizer, words } = codec;
  return {
    ...{ kind: 'videos', name, vocab, tokenizer, words, ...data.videos },
    ...splitRows(data, { digest, seed, unit: 'videos' }, source, validation?.source ?? null),
    notes: notesOf(name, all, codec, data.videos),
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

interface WriteParts extends Pick<VideoParts, 'baseDir' | 'fileFor'> {
  readonly progress: () => void;
}

async function written(
  videos: readonly ListedVideo[],
  { size, textLen }: VideoForm,
  codec: PromptCodec,
  { baseDir, fileFor, progress }: WriteParts,
): Promise<Written> {
  const pixels = new NumberFile(fileFor('pixels'), Uint8Array);
  const tokens = new NumberFile(fileFor('tokens'), Uint32Array);
  try {
    for (const video of videos) {
      pixels.write(await pixelsOf(video, size, baseDir));
      const { ids } = codec.encode(video.prompt, textLen);
      tokens.write([...ids, ...new Array<number>(textLen - ids.length).fill(0)]);
      progress();
    }
  } finally {
    pixels.close();
    tokens.close();
  }
  const prompts = videos.map(({ prompt }) => prompt);
  return {
    source: { numRows: videos.length, pixels: pixels.path, tokens: tokens.path, prompts },
    digest: `${pixels.digest}:${tokens.digest}`,
  };
}

/** Returns the values of a video: [3, frames, rows, columns]. */
async function pixelsOf(
  video: ListedVideo,
  [frames, rows, columns]: VideoForm['size'],
  baseDir: string,
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
  const count = await eachFrame(video, frames, baseDir, take);
  if (count === frames) return values;
  throw new ConfigError(
    `data: ${video.place}: ${video.path} has ${count} ${count === 1 ? 'frame' : 'frames'}, but a video of the model has ${frames}; give a longer video, remove the row, ` +
      'or give a model with fewer latent frames',
    { file: video.path },
  );
}

/** Says which texts are cut. */
function notesOf(
  name: string,
  videos: readonly ListedVideo[],
  codec: PromptCodec,
  { textLen }: VideoForm,
): string[] {
  const cut = videos.filter(({ prompt }) => codec.encode(prompt, textLen).isCut);
  const [first] = cut;
  if (first === undefined) return [];
  return [
    `data: ${cut.length} of ${videos.length} texts of ${name} have more than ${textLen} tokens (model.textLen), and their ends were cut off; ` +
      `the first is "${shortened(first.prompt)}"`,
  ];
}
