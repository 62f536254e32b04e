export { toChromeTrace } from './chrome-trace';
export { bySteps, type CommunicationRow, communication } from './communication';
export { createEventFile, type EventFileWriter, readEventFile } from './event-file';
export {
  leftAtPeak,
  logicalAtPeak,
  logicalByCause,
  logicalPeak,
  type MemoryOverTime,
  type ModuleBytes,
  memoryAtPeak,
  memoryAtRest,
  memoryOverTime,
  modulesAtPeak,
  totalBytes,
} from './memory';
export { modelStatesOf } from './model-states';
export { explainProcess } from './process-memory';
export {
  type BytesByCause,
  type CollectiveRecord,
  noBytes,
  type SpanRecord,
  type StepRecord,
} from './record';
export { Recorder } from './recorder';
export { type BlockRange, SpillFile } from './spill-file';
export type { EndedStep, Moment } from './step-events';
export { temporaries } from './temporaries';
export {
  type MainSegment,
  type Timeline,
  timeline,
  type WireSegment,
  waitSeconds,
  waitShare,
} from './timeline';
export {
  byWaitKind,
  totalWait,
  WAIT_KINDS,
  type WaitKind,
  type WaitSeconds,
  waitSecondsOf,
  waitsOf,
} from './waits';
