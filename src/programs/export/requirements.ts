import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findInstallation } from '../../core';

/** A package that `shardlab engine torch` does not install, with its version. */
export interface PinnedPackage {
  readonly name: string;
  readonly version: string;
}

/** The packages that a bundle can need. 'accelerate' and 'deepspeed' have requirement files, `requirements-NAME.txt`. */
export type Package = PinnedPackage | 'accelerate' | 'deepspeed';

export const TRANSFORMERS_PACKAGE: PinnedPackage = { name: 'transformers', version: '5.24.0' };
export const DIFFSYNTH_PACKAGE: PinnedPackage = { name: 'diffsynth', version: '2.1.12' };
export const SWIFT_PACKAGE: PinnedPackage = { name: 'ms-swift', version: '4.5.2' };

/** Returns the lines of requirements.txt for some packages. Throws: errors of the file system. */
export function packageLines(packages: readonly Package[]): string {
  return packages
    .map((needed) =>
      typeof needed === 'string'
        ? packagesOf(`requirements-${needed}.txt`)
        : `${needed.name}==${needed.version}\n`,
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
