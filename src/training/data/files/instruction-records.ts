import { constants } from 'node:buffer';
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { ConfigError, readRegularFile } from '../../../core';
import type { FoundFiles } from './find-files';
import { type FileRecord, recordsOf } from './records';
import type { BytesRead } from './text-file';

/**
 * Reads the records of files of instructions: JSON lines, CSV, or a whole list of JSON objects. `key` is the
 * setting that names the files. Throws: CONFIG naming file and record, and for formats without such records.
 */
export async function* instructionRecords(
  { files, format }: FoundFiles,
  read: BytesRead,
  key: 'instructions' | 'preferences' = 'instructions',
): AsyncGenerator<FileRecord> {
  if (format !== 'jsonl' && format !== 'csv') {
    throw new ConfigError(
      `data.${key}: ${files[0]} has format '${format}', and conversations are read from JSON and CSV files; convert it to JSON lines`,
    );
  }
  for (const file of files) {
    if (format === 'jsonl' && beginsList(file)) yield* listOf(file, read);
    else yield* recordsOf(file, format, [], read);
  }
}

/** Whether a file is a list: its first character after blanks is '['. */
function beginsList(file: string): boolean {
  const begin = Buffer.alloc(64);
  const descriptor = openSync(file, 'r');
  try {
    readSync(descriptor, begin);
  } finally {
    closeSync(descriptor);
  }
  return /^\uFEFF?\s*\[/.test(begin.toString());
}

function* listOf(file: string, read: BytesRead): Generator<FileRecord> {
  let list: unknown;
  try {
    list = JSON.parse(readRegularFile(file, constants.MAX_STRING_LENGTH));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(
      `data: ${file} is not JSON (${reason}); write a list of objects, or one object per line`,
      {
        file,
      },
    );
  }
  read(statSync(file).size);
  for (const [i, values] of Array.isArray(list) ? list.entries() : []) {
    const place = `${file}, entry ${i}`;
    if (typeof values !== 'object' || values === null)
      throw new ConfigError(`data: ${place} is not a JSON object; write {"messages": [ … ]}`, { file });
    yield { place, values: Object.fromEntries(Object.entries(values)) };
  }
}
