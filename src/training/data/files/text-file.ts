import { createReadStream } from 'node:fs';
import { ConfigError } from '../../../core';

/** A function that gets the number of bytes that were read since its last call. */
export type BytesRead = (bytes: number) => void;

const CHUNK_BYTES = 2 ** 20;

/**
 * Reads a text piece by piece, so that a large file is never in memory as a whole; a byte order mark is left out.
 * Throws: CONFIG naming the line of bytes that are not UTF-8.
 */
export async function* textChunks(file: string, read: BytesRead): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let line = 1;
  const decoded = (bytes?: Uint8Array): string => {
    let text: string;
    try {
      text = bytes === undefined ? decoder.decode() : decoder.decode(bytes, { stream: true });
    } catch {
      throw notText(file, line, 'bytes that are not UTF-8');
    }
    if (text.includes('\0'))
      throw notText(file, line + countLines(text.slice(0, text.indexOf('\0'))), 'a zero byte');
    line += countLines(text);
    return text;
  };
  // The stream's chunks are buffers, because the stream has no encoding.
  for await (const chunk of createReadStream(file, {
    highWaterMark: CHUNK_BYTES,
  }) as AsyncIterable<Uint8Array>) {
    read(chunk.length);
    yield decoded(chunk);
  }
  yield decoded();
}

function notText(file: string, line: number, content: string): ConfigError {
  return new ConfigError(
    `data: ${file} is not a text: it has ${content} at line ${line} or soon after; convert the file to UTF-8; for another kind of file, give data.format`,
    { file, line },
  );
}

function countLines(text: string): number {
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

/** A line of a text, without its end. */
export interface Line {
  /** The line's number, from 1. */
  readonly number: number;
  readonly text: string;
}

/** A longer line is not read: with what is made from it, it could fill the memory, or be longer than a text of V8 can be. */
const MOST_LINE = 2 ** 27;

/** Reads a text line by line. Throws: as `textChunks` does, and CONFIG naming a line that is too long. */
export async function* linesOf(file: string, read: BytesRead): AsyncGenerator<Line> {
  let [number, rest] = [1, ''];
  for await (const chunk of textChunks(file, read)) {
    const [first = '', ...others] = chunk.split('\n');
    rest += first;
    if (rest.length > MOST_LINE) {
      const message = `data: ${file}, line ${number} has more than ${MOST_LINE} characters; write one row per line`;
      throw new ConfigError(message, { file, line: number });
    }
    for (const text of others) {
      yield { number: number++, text: rest.endsWith('\r') ? rest.slice(0, -1) : rest };
      rest = text;
    }
  }
  if (rest !== '') yield { number, text: rest };
}
