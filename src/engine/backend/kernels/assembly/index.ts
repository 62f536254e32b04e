// SIMD kernels on the memory of the wasm backend. Pointers are byte offsets into the memory; sizes are numbers of elements.
// Kernels have no static data, allocate nothing and write only into their arguments' ranges. Values are float32 by default.
export * from './elementwise';
export * from './math';
export * from './reduce';
export * from './reductions';
export * from './compare';
export * from './optimizer';
export * from './optimizer-8bit';
export * from './norm';
export * from './gelu';
export * from './softmax';
export * from './flash';
export * from './product';
export * from './cross-entropy';
export * from './permute';
export * from './rows';
export * from './rounding';
export * from './columns';
export * from './channels';
export * from './dropout';
