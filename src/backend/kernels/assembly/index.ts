// SIMD kernels on the wasm backend's own memory. Pointers are byte offsets into it; sizes count elements.
// No static data, no allocation, no writes outside the given ranges. float32 unless said otherwise.
export * from './elementwise';
export * from './math';
export * from './reduce';
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
