export { type CellError, readableThrown, shownTraceback } from './cell-error';
export { captureConsole, createStreamBuffer, type StreamName, type StreamWriter } from './console-capture';
export type {
  CellBreakpoint,
  DebugFrame,
  DebugNews,
  DebugOrder,
  DebugSetup,
  ObjectText,
} from './debug-protocol';
export { currentDisplay, type DisplaySink, registerDisplay, replacingDisplay } from './display';
export { createEvaluator, type EvaluateResult, type Evaluator } from './evaluator';
export { EVALUATOR_FLAGS } from './evaluator-flags';
export { Excerpt, LONGEST_TEXT, metadataOf, omission, shortened, shortenedBundle } from './excerpt';
export { attachGuardian, type Guardian, interruptInStages } from './guardian';
export type { Importer } from './importer';
export { KERNEL_LANGUAGE, KERNEL_NAME, type KernelSpec, kernelSpec } from './kernelspec';
export { type MimeBundle, showTensorValues, toMimeBundle, toPlainText, toWireBundle } from './mime';
export {
  AGAIN_SECONDS,
  childrenCountFrom,
  describeActivity,
  interruptChildren,
  isStopped,
  SecondInterrupt,
} from './native-call';
export {
  isWithinProgress,
  Progress,
  type ProgressPlace,
  processTerminal,
  progressBundle,
  type ShowProgress,
  type Terminal,
  terminalSink,
  timeLeft,
  withProgress,
  withProgressSync,
} from './progress';
export { type PythonPlace, pythonLine, pythonName, pythonSentence } from './python-habits';
export { nameInCells, SHARED_NAMES } from './shared-names';
export { type StrayError, watchStrayErrors, writeExitCall } from './stray-errors';
export * as torchHabits from './torch-habits';
export { clearUnbroken, isUnbroken, markUnbroken, unbroken } from './unbroken';
export type { CallbackOutcome, CellOutput } from './widget';
export * as widgets from './widget';
