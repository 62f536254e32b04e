export {
  completeMark,
  readTorch,
  TESTED_TORCH,
  TORCH_PROBE,
  type TorchFound,
  type TorchVersions,
  torchEnvironment,
  torchPython,
} from './find-python';
export { startTorchFleet } from './fleet';
export { requireLanguage } from './language';
export { torchSupport } from './settings';
export { type TorchRun, torchRunOf } from './torch-run';
export { tracePython } from './trace-python';
export { encodeValues } from './value-codec';
