export {
  BENCH_SIZES,
  type BenchRow,
  benchCollectives,
  busBandwidth,
  modelSeconds,
} from './dist/bench-collectives';
export * as callSites from './dist/call-site';
export { currentWorld, markWorld } from './dist/current-world';
export { type DeviceMesh, initDeviceMesh } from './dist/device-mesh';
export { createDist, type Dist } from './dist/facade';
export type { MadeGroup } from './dist/group-context';
export { joinMetaWorld } from './dist/meta-world';
export { initializeModelParallel, type ModelParallel, type ModelParallelSizes } from './dist/model-parallel';
export type { ValueCodec } from './dist/objects';
export type { CollectiveOptions, Piece, PieceList, ProcessGroup, ReduceOp, Work } from './dist/types';
export { requireGroup } from './dist/validation';
export { hold } from './dist/work';
export { joinWorld, type PlaneConfig, type World } from './dist/world';
export type { CallOp, Contents } from './transport/call';
export { type AbortReason, ControlBlock, createControlBuffer } from './transport/control-block';
export {
  LINKS,
  type Link,
  type LinkName,
  type LinkNumbers,
  linkOf,
  linkText,
  linkWarning,
  transferSeconds,
  type WireCost,
} from './transport/link';
export type { CallWatch, CollectiveCall, CollectiveCosts, WatchedCall } from './transport/meta-plane';
export { continueAtParentsEnd, probeSharedMemory } from './transport/native';
export type { Nodes } from './transport/nodes';
export { signatureOf, wordOf } from './transport/record';
export { ringCost } from './transport/ring-cost';
export { createSegment, SEGMENT_BYTES, type Segment } from './transport/segment';
export {
  type CollectiveStatus,
  createStatusBoard,
  type RankStatus,
  readStatus,
  StatusWriter,
} from './transport/status-board';
