import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after } from 'node:test';
import { readConfig } from '../../src/programs/read';
import type { Effect, Reading } from '../../src/programs/rows/reading';
import { repositoryRoot } from '../support/paths';

/** The folder of the files that documents give. */
export const DOCUMENTS = join(repositoryRoot(), 'test', 'data', 'dialects');

/** Makes a folder with files, which is removed after the tests of the file. */
export function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-dialects-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

/** Reads one file with this text. */
export function readText(name: string, text: string, world?: number): Reading {
  return readConfig(name, { cwd: folderOf({ [name]: text }), world });
}

/** Returns the effect of each line, by key. */
export function effects({ lines }: Reading): Readonly<Record<string, Effect>> {
  return Object.fromEntries(lines.map(({ key, effect }) => [key, effect]));
}

/** Returns why a key has its effect. */
export function whyOf({ lines }: Reading, key: string): string {
  return lines.find((line) => line.key === key)?.why ?? `no line has the key ${key}`;
}
