import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from './paths';

const NAMES: readonly string[] = JSON.parse(
  readFileSync(join(repositoryRoot(), 'scripts', 'lib', 'browsers.json'), 'utf8'),
);

/** The command that starts Chromium; undefined if there is none on the PATH. */
export const chromium = NAMES.find((name) => spawnSync(name, ['--version']).status === 0);

/** Why tests that need Chromium are skipped; false if they run. */
export const skipWithoutChromium =
  chromium === undefined ? 'there is no Chromium here (Debian: apt-get install chromium)' : false;
