import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { findBlas } from '../../backend/blas';
import { createWasmEngine } from '../../backend/wasm-engine';
import type { Check } from './check';

const resolveFrom = createRequire(__filename);

/** Whether the wasm engine starts and which BLAS computes its matmuls. */
export async function checkWasm(searchPaths: readonly string[]): Promise<readonly Check[]> {
  try {
    await createWasmEngine({ searchPaths });
  } catch (error) {
    const found = `does not start: ${error instanceof Error ? error.message : String(error)}`;
    return [{ name: 'engine wasm', status: 'bad', found, advice: 'npm ci, then npm run build' }];
  }
  return [{ name: 'engine wasm', status: 'good', found: 'starts' }, checkBlas(searchPaths)];
}

function checkBlas(searchPaths: readonly string[]): Check {
  const blas = findBlas({ searchPaths });
  if (blas.library === null) {
    const advice =
      'matmuls run in WebAssembly, several times slower; npm start installs numpy, which contains OpenBLAS';
    return { name: 'BLAS', status: 'note', found: `none: ${blas.reason}`, advice };
  }
  const { library, path } = blas;
  return { name: 'BLAS', status: 'good', found: `${library}, ${path}`, facts: { library, path } };
}

/** Whether an optional TensorFlow package is installed with its native binding. */
export function checkTensorflow(): Check {
  const name = 'engine tensorflow';
  for (const pkg of ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node']) {
    const folder = packageFolder(pkg);
    if (folder === undefined) continue;
    if (hasBinding(join(folder, 'lib'))) return { name, status: 'good', found: `${pkg} with its binding` };
    const advice = `ranks use wasm; to download the binding: npm rebuild ${pkg} --ignore-scripts=false`;
    return { name, status: 'note', found: `${pkg} is here without its native binding`, advice };
  }
  const advice = 'ranks use wasm; npm install @tensorflow/tfjs-node-gpu@4.22.0 brings the package';
  return { name, status: 'note', found: 'not installed (optional)', advice };
}

function packageFolder(name: string): string | undefined {
  try {
    return dirname(resolveFrom.resolve(`${name}/package.json`));
  } catch {
    return undefined;
  }
}

function hasBinding(lib: string): boolean {
  if (!existsSync(lib)) return false;
  return readdirSync(lib).some((folder) => existsSync(join(lib, folder, 'tfjs_binding.node')));
}
