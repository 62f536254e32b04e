import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findInstallation } from '../../cell/installation';

/** Versions of packages besides those of `shardlab engine torch`. */
const VERSIONS = {
  accelerate: '1.15.0',
  deepspeed: '0.19.8',
  transformers: '5.24.0',
  // The last release that reads TOML.
  torchtitan: '0.2.2',
  'ms-swift': '4.5.2',
  llamafactory: '0.9.5',
} as const;

export type Package = keyof typeof VERSIONS;

/** Returns a package's version. */
export function versionOf(name: Package): string {
  return VERSIONS[name];
}

/** Returns lines of requirements.txt. */
export function packageLines(packages: readonly Package[]): string {
  return packages.map((name) => `${name}==${VERSIONS[name]}\n`).join('');
}

/** Returns requirements.txt: what `shardlab engine torch` installs, and other packages. Throws: errors of the file system. */
export function requirementsText(packages: readonly Package[]): string {
  const file = join(findInstallation(), 'src', 'python', 'requirements.txt');
  const common = readFileSync(file, 'utf8').replaceAll(/^#.*\n/gm, '');
  return common + packageLines(packages);
}
