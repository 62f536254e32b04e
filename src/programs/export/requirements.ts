import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findInstallation } from '../../core';

/** Versions of packages that `shardlab engine torch` does not install. */
const VERSIONS = {
  transformers: '5.24.0',
  // This is the last release that reads TOML.
  torchtitan: '0.2.2',
  'ms-swift': '4.5.2',
  llamafactory: '0.9.5',
} as const;

type OtherPackage = keyof typeof VERSIONS;

/** The packages that a bundle can need. 'accelerate' and 'deepspeed' have requirement files, `requirements-NAME.txt`. */
export type Package = OtherPackage | 'accelerate' | 'deepspeed';

/** Returns a package's version. */
export function versionOf(name: OtherPackage): string {
  return VERSIONS[name];
}

/** Returns the lines of requirements.txt for some packages. Throws: errors of the file system. */
export function packageLines(packages: readonly Package[]): string {
  return packages
    .map((name) =>
      name === 'accelerate' || name === 'deepspeed'
        ? packagesOf(`requirements-${name}.txt`)
        : `${name}==${VERSIONS[name]}\n`,
    )
    .join('');
}

/** Returns requirements.txt: packages of `shardlab engine torch` and the given packages. Throws: errors of the file system. */
export function requirementsText(packages: readonly Package[]): string {
  return packagesOf('requirements.txt') + packageLines(packages);
}

/** Returns the lines of a requirement file of `shardlab engine torch`, without comments. */
function packagesOf(file: string): string {
  return readFileSync(join(findInstallation(), 'src', 'python', file), 'utf8').replaceAll(/^#.*\n/gm, '');
}
