/// <reference types="@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops" preserve="true" />
/**
 * TensorFlow.js as this package and its cells use it: the core, the layers, the plain JavaScript backend. The package
 * `@tensorflow/tfjs` adds a reader of files (`tf.data`), graph models and WebGL, which nothing here needs, and is four times as large.
 */
import { version_cpu } from '@tensorflow/tfjs-backend-cpu';
import { version_core } from '@tensorflow/tfjs-core';
import { version_layers } from '@tensorflow/tfjs-layers';
import { registerChainedOps } from './chained-ops';

export * from '@tensorflow/tfjs-backend-cpu';
export * from '@tensorflow/tfjs-core';
export * from '@tensorflow/tfjs-layers';

/** The versions of the parts. */
export const version = {
  tfjs: version_core,
  'tfjs-core': version_core,
  'tfjs-layers': version_layers,
  'tfjs-backend-cpu': version_cpu,
};

registerChainedOps();
