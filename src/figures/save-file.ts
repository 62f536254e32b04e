import { closeSync, writeFileSync } from 'node:fs';
import { extname } from 'node:path';
import { ConfigError, classOf, createOutputFile, ShardlabError } from '../core';

/** What is saved: its word in messages, an example of a call, and its contents by the ending of the file's name. */
export interface Savable {
  readonly noun: 'figure' | 'table';
  readonly example: string;
  readonly formats: Readonly<Record<string, () => string | Buffer>>;
}

/**
 * Writes a figure or a table into a file; the ending of the file's name chooses the form. Throws: CONFIG for another ending, with
 * the known ones, and IO if the file cannot be written.
 */
export function saveFile(file: string, { noun, example, formats }: Savable): void {
  const name = /'(.*)'/.exec(example)?.[1];
  if (typeof file !== 'string')
    throw new ConfigError(`save takes a file's name, as '${name}', not ${classOf(file)}`);
  const contentOf = formats[extname(file).toLowerCase()];
  if (contentOf === undefined) {
    const endings = Object.keys(formats).join(', ');
    throw new ConfigError(`save: "${file}" has no known ending; choose one of ${endings}, as in ${example}`);
  }
  writeOutput(file, contentOf(), noun);
}

/** Writes a file. Throws: IO if it cannot be written; the message names the `noun` that it should contain. */
export function writeOutput(file: string, content: string | Buffer, noun: Savable['noun']): void {
  try {
    const descriptor = createOutputFile(file);
    try {
      writeFileSync(descriptor, content);
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    if (cause instanceof ShardlabError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ShardlabError('IO', `the ${noun} could not be saved to ${file}: ${why}`, {
      cause,
      details: { file },
    });
  }
}
