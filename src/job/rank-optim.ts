import type { Engine } from '../backend/engine';
import type { ProcessGroup } from '../dist/types';
import { AdamW, type AdamWOptions } from '../optim/adamw';
import { AdamW8bit, type AdamW8bitOptions } from '../optim/adamw-8bit';
import { clipGradNorm, type GradNorm } from '../optim/clip-grad-norm';
import { GradScaler, type GradScalerOptions } from '../optim/grad-scaler';
import type { HasStates, Optimizer } from '../optim/optimizer';
import type { OptimizerPlacement } from '../optim/rule-optimizer';
import { SGD, type SgdOptions } from '../optim/sgd';
import { WarmupCosineLR, type WarmupCosineOptions } from '../optim/warmup-cosine-lr';
import { type CallableClass, callableClass } from './callable-class';

/** Optimizers and what belongs to them, on this rank's engine. */
export interface RankOptim {
  readonly AdamW: typeof AdamW;
  adamW(model: HasStates, options?: AdamWOptions & OptimizerPlacement): AdamW;
  /** torch's spelling of the same. */
  adamw(model: HasStates, options?: AdamWOptions & OptimizerPlacement): AdamW;
  /** Moments in one byte an element. */
  adamW8bit(model: HasStates, options?: AdamW8bitOptions & OptimizerPlacement): AdamW8bit;
  sgd(model: HasStates, options?: SgdOptions & OptimizerPlacement): SGD;
  clipGradNorm(model: HasStates, maxNorm: number | null): GradNorm;
}

/** Schedules and loss scaling by the articles' names. */
export interface RankSchedules {
  /** Source: DeepSpeed's WarmupCosineLR, with the arguments of the article. */
  readonly WarmupCosineLR: CallableClass<
    [optimizer: Pick<Optimizer, 'lr'>, options: WarmupCosineOptions],
    WarmupCosineLR
  >;
  /** Source: torch.amp.GradScaler. */
  readonly GradScaler: CallableClass<[options?: GradScalerOptions], GradScaler>;
}

/** Optimizers on this rank's engine. `onHost` keeps their states on the host, where the step then runs. */
export function rankOptim(engine: Engine): RankOptim {
  const adamW: RankOptim['adamW'] = (model, { onHost = false, ...options } = {}) =>
    new AdamW(engine, model, options, { onHost });
  return {
    AdamW,
    adamW,
    adamw: adamW,
    adamW8bit: (model, { onHost = false, ...options } = {}) =>
      new AdamW8bit(engine, model, options, { onHost }),
    sgd: (model, { onHost = false, ...options } = {}) => new SGD(engine, model, options, { onHost }),
    clipGradNorm: (model, maxNorm) => clipGradNorm(engine, model, maxNorm),
  };
}

/** Schedules and loss scaling on this rank's engine and all ranks. */
export function rankSchedules(engine: Engine, group: ProcessGroup): RankSchedules {
  return {
    WarmupCosineLR: callableClass((optimizer, options) => new WarmupCosineLR(optimizer, options)),
    GradScaler: callableClass((options) => new GradScaler(engine, group, options)),
  };
}
