export type { BusyRank, CallSink, OutputSink } from './call';
export type { Cluster, CommandHost } from './cluster';
export type { ControlServer } from './control/control-server';
export type { Fault } from './control/faults';
export { FoldedLines, warnOnStderr } from './control/folded-lines';
export { createJobFolder, removeJobFolder } from './control/folder';
export type { MadeEvent, MadePart } from './control/made-values';
export type { Measurement } from './control/measurement';
export type {
  CellStep,
  ComparedReplicas,
  CopyRestored,
  EvaluatedStep,
  FromRank,
  GroupRef,
  OwnSources,
  RankEvent,
  RankOutcome,
  RankStep,
  RankWork,
  ReadyReport,
  SavedBeside,
  Shipped,
  StepGrant,
  ToRank,
} from './control/messages';
export { Mystery, type Solution } from './control/mystery';
export { type Planted, plantedIn } from './control/planted';
export * as points from './control/point-text';
export { firstRanks, parseSelection, type Selection } from './control/selection';
export { requireSendable } from './control/sendable';
export { decodeSent, encodeSent } from './control/sent-values';
export {
  type BatchesMade,
  type BatchesNeeded,
  type MadeTensor,
  TORCH_FRAMEWORKS,
  type TorchFramework,
  type TorchModel,
  type TorchState,
} from './control/torch-messages';
export type { RankVariables, VariableNamed } from './control/variables';
export * as variableNames from './control/variables';
export {
  FAREWELL_MS,
  type Fleet,
  type FleetListener,
  freePort,
  StartReports,
  startFleet,
} from './fleet';
export { RankGroups } from './groups';
export { availableMemory } from './host-memory';
export { type LoadProbe, openLoadProbe } from './load-probe';
export { type LaunchOptions, type LaunchPlan, MAX_RANKS, planLaunch } from './options';
export * as outputs from './outputs';
export { StateDictType } from './rank/checkpoints';
export type { RankFsdpWrapper } from './rank/fsdp';
export { ownOnMeta } from './rank/own-on-meta';
export type { OwnFunctions, UserFunction } from './rank/own-parts';
export { type DataFolders, prepareInFolder } from './rank/prepare-in-folder';
export type { ProbeResult } from './rank/probe';
export { ranksOf } from './rank/replicas';
export { type LoadResult, savedEvaluations } from './rank/saves';
export type { RankScope } from './rank/scope';
export { currentRankScope } from './rank/scope-host';
export { startRank } from './rank/start';
export { describeExit, killGroup, type RankExit, type RankProcess } from './rank-process';
export { sitePackages } from './site-packages';
export { type RankNames, Supervisor } from './supervisor';
export * as systemLimits from './system-limits';
export { describeCollective } from './waits';
export { createWhy, type Why } from './why';
