import type { Engine } from '../../src/engine/backend/engine';
import { createWasmEngine, type WasmEngineOptions } from '../../src/engine/backend/wasm-engine';
import { sitePackages } from '../../src/launch/site-packages';
import { repositoryRoot } from './paths';

/** A way to compute matmuls with which a suite runs. */
export interface EngineCase {
  readonly name: string;
  start(options?: WasmEngineOptions): Promise<Engine>;
}

/** The wasm engine with the BLAS of this machine, and without any. */
export const ENGINE_CASES: readonly EngineCase[] = [
  {
    name: 'with a BLAS',
    start: (options) =>
      createWasmEngine({ searchPaths: sitePackages(process.env, repositoryRoot()), ...options }),
  },
  { name: 'without BLAS', start: (options) => createWasmEngine({ blas: 'none', ...options }) },
];
