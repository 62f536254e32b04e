import type { Engine } from '../../src/engine/backend/engine';
import { createWasmEngine } from '../../src/engine/backend/wasm-engine';

/** The engine of a test file that needs no BLAS; a process has one. */
export function testEngine(): Promise<Engine> {
  return createWasmEngine({ blas: 'none' });
}
