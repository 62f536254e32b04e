import type { Seconds } from '../../core';
import { OPTIMIZER_UPDATES } from '../../engine';
import type { ComputeCause } from '../prediction';
import type { TimedKernel } from './gpu-costs';
import { flopsOf } from './kernel-work';

const LOSS = /crossEntropy/i;

/** Sums the times of a step's kernels by cause, and the floating point operations of its matmuls and convolutions. */
export class CountedKernels {
  /** Floating point operations; recomputed operations are included. */
  flops = 0;
  seconds = noSeconds();

  reset(): void {
    this.flops = 0;
    this.seconds = noSeconds();
  }

  readonly add = ({ call, work, seconds, waited }: TimedKernel): void => {
    this.flops += flopsOf(work);
    this.seconds.launch += waited;
    this.seconds[causeOf({ call, work })] += seconds;
  };
}

function noSeconds(): Record<ComputeCause, Seconds> {
  return { products: 0, attention: 0, elementwise: 0, loss: 0, optimizer: 0, launch: 0 };
}

function causeOf({ call, work }: Pick<TimedKernel, 'call' | 'work'>): ComputeCause {
  if (OPTIMIZER_UPDATES.has(call.name)) return 'optimizer';
  if (LOSS.test(call.name)) return 'loss';
  switch (work.kind) {
    case 'product':
      return 'products';
    case 'attention':
      return 'attention';
    case 'traffic':
      return 'elementwise';
    default:
      return work satisfies never;
  }
}
