import type { WasmContext } from './wasm-context';
export function registerFusedOps(_context: WasmContext): void {}
