import type { WasmContext } from '../wasm-context';
import { registerComparisons } from './compared-kernels';
import { registerConv3dGradients } from './conv3d-gradients';
import { registerConvolutionGradients } from './convolution-gradients';
import { registerImageKernels } from './image-kernels';
import { mendGradients } from './mended-gradients';
import { mendKernels } from './mended-kernels';
import { registerPools } from './pooling-kernels';
import { registerReductions } from './reduction-kernels';
import { registerResizeGradients } from './resize-kernels';
import { registerScans } from './scan-kernels';
import { registerSlices } from './sliced-kernels';
import { registerStrided } from './strided-kernels';
import { registerTranspose } from './transpose-kernel';

/** Replaces kernels and gradients of tfjs that are wrong, missing or slow. */
export function registerMended(context: WasmContext): void {
  mendKernels(context);
  mendGradients();
  registerReductions(context);
  registerComparisons(context);
  registerScans(context);
  registerSlices(context);
  registerStrided(context);
  registerTranspose(context);
  registerPools(context);
  registerConvolutionGradients(context);
  registerConv3dGradients(context);
  registerResizeGradients(context);
  registerImageKernels(context);
}
