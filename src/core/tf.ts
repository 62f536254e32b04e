/// <reference types="@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops" preserve="true" />
/**
 * TensorFlow.js for this package and its cells: the core, the layers and the plain JavaScript backend. The package
 * `@tensorflow/tfjs` also has `tf.data`, graph models and WebGL, which are not needed here; it is four times as large.
 */
import { version_cpu } from '@tensorflow/tfjs-backend-cpu';
import { version_core } from '@tensorflow/tfjs-core';
import { version_layers } from '@tensorflow/tfjs-layers';
import { registerChainedOps } from './chained-ops';

export * from '@tensorflow/tfjs-backend-cpu';
export * from '@tensorflow/tfjs-core';
export * from '@tensorflow/tfjs-layers';

/** The versions of TensorFlow.js's packages. */
export const version = {
  tfjs: version_core,
  'tfjs-core': version_core,
  'tfjs-layers': version_layers,
  'tfjs-backend-cpu': version_cpu,
};

registerChainedOps();
