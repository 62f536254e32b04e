/*
 * [Note: doors] An index.ts is the door of its flat: other flats import only from there. The build makes doors lazy
 * (scripts/lib/lazy-doors.mjs): a file is loaded when one of its names is first read. So a process loads only what it uses, and
 * an import across flats needs no `await import`. `test/project/flats.test.ts` checks how many names a door has.
 */

export type { Language, Text } from './chinese';
export * as languages from './chinese';
export { type Clock, HOST_CLOCK, SimulatedClock } from './clock';
export { alias } from './clone';
export { withGradients } from './custom-gradient';
export { DISPLAY, type DisplayBundle, type Shown, shownAsText, withShown } from './display';
export { type DType, type HalfDType, itemBytes, type WireDType } from './dtypes';
export {
  ConfigError,
  classOf,
  type ErrorCode,
  type ErrorDetails,
  type ErrorJson,
  errorJson,
  ShardlabError,
} from './errors';
export {
  type BufferId,
  COLLECTIVE_OPS,
  COMM_CAUSES,
  type CollectiveEvent,
  type CollectiveOp,
  type CollectiveProgress,
  type CommCause,
  type LiveBuffer,
  MEMORY_CAUSES,
  type MemoryCause,
  type Observer,
  type PipelineWork,
  type PointAction,
  type PointListener,
  type PointName,
  type PointValues,
  SILENT,
  type Space,
  type SpanEvent,
  type SpanName,
  type StepPoint,
  type Tag,
  TEMPORARY_PARTS,
  type TemporaryPart,
} from './events';
export { globalSlot } from './global-slot';
export { IGNORED_LABEL } from './ignored-label';
export { findInstallation, installAdvice, ownName } from './installation';
export { endOfString, parseJson } from './json-text';
export { firstNames, listed } from './listed';
export { createSender, receiveAll, type Sender } from './message-loops';
export { nearest } from './nearest';
export { now } from './now';
export { ownValue } from './own-value';
export { type ProcessStat, readProcessStat } from './process-stat';
export { type Random, seeded } from './random';
export { rankNames } from './rank-names';
export { readIfThere } from './read-if-there';
export {
  createOutputFile,
  isFolder,
  linkTarget,
  MOST_CONFIG_BYTES,
  makeFolder,
  openRegularFile,
  readRegularFile,
  statIfThere,
  withTemporaryFolder,
} from './regular-file';
export { HALF_FORMATS, roundValues } from './rounding';
export { shortened, shortenedWithin } from './shortened';
export { isRecord, shown } from './shown';
export { rootOf } from './stable-ops';
export { mean, median, sumOf, total } from './statistics';
export { isPlain, mapTensors, tensorsIn } from './tensor-tree';
export { openThreadCpuClock, type ThreadCpuClock } from './thread-cpu';
export { MESSAGE_THREAD_LIMITS } from './thread-limits';
export { TimeLimit } from './time-limit';
export { type Bytes, formatBytes, formatSeconds, type Seconds } from './units';
export { type Warn, warnOnce } from './warn';
export { weightFiles } from './weight-files/weight-files';
export { isIndex, isWhole } from './whole-number';
