import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';
import { ConfigError, isFolder, ShardlabError } from '../../../core';
import type { Frame } from './crop-and-resize';
import { decodableSize, decodedImage, imageSizeOf } from './image';
import { refusePointer } from './lfs-pointer';

/** A video: a file of it, a folder of its frames, or an image, which is a video of one frame. */
export interface VideoPlace {
  /** The row that names the video, for error messages: 'metadata.csv, line 3'. */
  readonly place: string;
  readonly path: string;
}

/** Where and until when files of videos are decoded. */
export interface DecodePlace {
  /** The folder beside which the package ffmpeg-static may be installed. */
  readonly baseDir: string;
  /** Ends the decoding. */
  readonly signal?: AbortSignal | undefined;
}

const IMAGE_NAMES = ['.png', '.jpg', '.jpeg'];

/**
 * Gives the first `count` frames of a video to `take`, in their order, and returns how many there were. Frames of a folder are in
 * order of their names, in which 9 comes before 10. Throws: CONFIG naming row and file, if the frames cannot be decoded; IO
 * without the program that decodes files of videos.
 */
export async function eachFrame(
  video: VideoPlace,
  count: number,
  place: DecodePlace,
  take: (frame: Frame) => void,
): Promise<number> {
  if (!isFolder(video.path) && !isImage(video.path)) {
    refusePointer(video.path);
    return decodeVideo(video, count, place, take);
  }
  const files = filesOfVideo(video).slice(0, count);
  for (const file of files) {
    refusePointer(file);
    take(imageFrame(file));
  }
  return files.length;
}

function isImage(path: string): boolean {
  return IMAGE_NAMES.includes(extname(path).toLowerCase());
}

/** Returns the frames of a folder in their order, or the video's only file. Throws: CONFIG for a folder without frames. */
export function filesOfVideo({ place, path }: VideoPlace): string[] {
  if (!isFolder(path)) return [path];
  const order = new Intl.Collator('en', { numeric: true });
  const names = readdirSync(path).filter(isImage);
  if (names.length === 0)
    throw new ConfigError(
      `data: ${place}: the folder ${path} has no PNG or JPEG images; write the frames of the video into it`,
    );
  return names.sort(order.compare).map((name) => join(path, name));
}

function imageFrame(file: string): Frame {
  const bytes = readFileSync(file);
  const [rows, columns] = imageSizeOf(file, bytes);
  const decoded = decodedImage(file, bytes, [rows, columns]);
  const pixels = new Uint8Array(rows * columns * 3);
  for (let from = 0, to = 0; to < pixels.length; from += 4, to += 3) {
    pixels[to] = decoded[from] ?? 0;
    pixels[to + 1] = decoded[from + 1] ?? 0;
    pixels[to + 2] = decoded[from + 2] ?? 0;
  }
  return { rows, columns, pixels };
}

/** FFmpeg decodes to PPM files in a row, whose headers have the size of each frame. Only files are opened. */
const ARGUMENTS = (path: string, count: number): string[] => [
  ...['-nostdin', '-v', 'error', '-protocol_whitelist', 'file,pipe', '-i', path, '-map', '0:v:0'],
  ...['-frames:v', String(count), '-f', 'image2pipe', '-c:v', 'ppm', '-pix_fmt', 'rgb24', 'pipe:1'],
];

async function decodeVideo(
  video: VideoPlace,
  count: number,
  { baseDir, signal }: DecodePlace,
  take: (frame: Frame) => void,
): Promise<number> {
  const args = ARGUMENTS(video.path, count);
  try {
    return await decodeBy('ffmpeg', args, { ...video, signal }, take);
  } catch (error) {
    if (!isMissing(error)) throw error;
    const program = packagedProgram(baseDir);
    if (program === undefined) throw missingProgram(video);
    return decodeBy(program, args, { ...video, signal }, take);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Returns the path of FFmpeg in the package ffmpeg-static, if the package is installed beside the notebook. */
function packagedProgram(baseDir: string): string | undefined {
  try {
    const path: unknown = createRequire(join(baseDir, 'notebook.js'))('ffmpeg-static');
    return typeof path === 'string' ? path : undefined;
  } catch {
    return undefined;
  }
}

function missingProgram({ place, path }: VideoPlace): ShardlabError {
  return new ShardlabError(
    'IO',
    `data: ${place}: ${path} is decoded by the program ffmpeg, which is not installed here; install it (\`apt install ffmpeg\`, \`brew install ffmpeg\`, ` +
      "or `npm install ffmpeg-static` in the notebook's folder), or give a folder of PNG or JPEG frames per video",
    { details: { file: path } },
  );
}

/** Rejects with the error of the system if there is no such program. */
function decodeBy(
  program: string,
  args: readonly string[],
  { place, path, signal }: VideoPlace & Pick<DecodePlace, 'signal'>,
  take: (frame: Frame) => void,
): Promise<number> {
  return new Promise((done, fail) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' });
    const frames = new FrameStream(path, take);
    let said = '';
    const failed = (error: unknown): void => {
      child.kill('SIGKILL');
      fail(error);
    };
    child.on('error', failed);
    guarded(child, failed, (chunk) => frames.write(chunk));
    child.stderr?.on('data', (chunk: Buffer) => {
      said = `${said}${chunk}`.slice(0, 2000);
    });
    child.on('close', (code) => {
      if (code === 0 && frames.count > 0) return done(frames.count);
      // The first line names the cause, behind the part of FFmpeg that found it: '[mov,mp4 @ 0x5f]'.
      const [first = ''] = said.trim().split('\n');
      const reason = first.replace(/^\[[^\]]*\]\s*/, '') || 'it has no frames';
      fail(
        new ConfigError(
          `data: ${place}: ${path} is no video that ffmpeg can decode (${reason}); save the video again or remove the row`,
          { file: path },
        ),
      );
    });
  });
}

/** Passes a child's output on; an error of `write` ends the child. */
function guarded(
  child: ChildProcess,
  failed: (error: unknown) => void,
  write: (chunk: Buffer) => void,
): void {
  child.stdout?.on('data', (chunk: Buffer) => {
    try {
      write(chunk);
    } catch (error) {
      failed(error);
    }
  });
}

/** Cuts a stream of PPM files into frames. */
class FrameStream {
  readonly #file: string;
  readonly #take: (frame: Frame) => void;
  #chunks: Buffer[] = [];
  #numBytes = 0;
  /** Bytes that the next frame needs; 0 if its header was not read yet. */
  #needed = 0;
  count = 0;

  /** `file` is the video, for error messages. */
  constructor(file: string, take: (frame: Frame) => void) {
    this.#file = file;
    this.#take = take;
  }

  write(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#numBytes += chunk.length;
    while (this.#numBytes > this.#needed) {
      const bytes = Buffer.concat(this.#chunks);
      this.#chunks = [bytes];
      const [header, width, height] = /^P6\s(\d+)\s(\d+)\s255\s/.exec(bytes.toString('latin1', 0, 64)) ?? [];
      if (header === undefined) return;
      const [rows, columns] = decodableSize(this.#file, [Number(height), Number(width)]);
      const end = header.length + 3 * rows * columns;
      this.#needed = end - 1;
      if (bytes.length < end) return;
      this.#take({ rows, columns, pixels: new Uint8Array(bytes.subarray(header.length, end)) });
      this.count++;
      this.#chunks = [bytes.subarray(end)];
      this.#numBytes = bytes.length - end;
      this.#needed = 0;
    }
  }
}
