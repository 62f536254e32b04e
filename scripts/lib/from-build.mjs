import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from './places.mjs';

/** Returns the exports of a compiled file of src. The file exists only after the step "build". */
export function fromBuild(path) {
  return createRequire(import.meta.url)(join(root, 'build', 'src', `${path}.js`));
}
