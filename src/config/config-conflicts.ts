import type { ConfigIssue } from './config-issue';
import { modelShape } from './model-config';
import { modelConflicts } from './model-conflicts';
import { precisionConflict } from './precision-config';
import type { TrainConfig } from './train-config';

/** Settings that contradict each other or the model, each with both values and what to change. */
export function configConflicts(config: TrainConfig): ConfigIssue[] {
  return [...conflictsOfModel(config), ...precisionConflicts(config), ...trainingConflicts(config)];
}

function conflictsOfModel(config: TrainConfig): ConfigIssue[] {
  const shape = modelShape(config);
  const found = modelConflicts(shape);
  if (config.data === 'typescript' && shape.kind !== 'dit' && shape.vocab < 256) {
    found.push({
      path: ['model', 'vocab'],
      message: `vocab ${shape.vocab} is too small for text as bytes; give at least 256`,
    });
  }
  return found;
}

function precisionConflicts(config: TrainConfig): ConfigIssue[] {
  const message = precisionConflict(config);
  return message === null ? [] : [{ path: [], message }];
}

function trainingConflicts({ optimizer, schedule, parallel }: TrainConfig): ConfigIssue[] {
  const found: ConfigIssue[] = [];
  const { kind, nesterov, momentum, lr } = optimizer;
  if (kind === 'sgd' && nesterov && momentum === 0) {
    // As torch.optim.SGD, which raises ValueError.
    found.push({
      path: ['optimizer', 'nesterov'],
      message: 'true needs a momentum, and momentum is 0; give optimizer.momentum, as 0.9',
    });
  }
  if (schedule !== null && schedule.warmupSteps >= schedule.maxSteps) {
    const { warmupSteps, maxSteps } = schedule;
    found.push({
      path: ['schedule', 'warmupSteps'],
      message: `${warmupSteps} leaves nothing of maxSteps ${maxSteps} for the cosine; give fewer than ${maxSteps}`,
    });
  }
  if (schedule !== null && schedule.etaMin > lr) {
    found.push({
      path: ['schedule', 'etaMin'],
      message: `${schedule.etaMin} is above optimizer.lr ${lr}, from which the rate falls; give at most ${lr}`,
    });
  }
  const { mesh, reshardAfterForward } = parallel;
  if (mesh !== null && typeof reshardAfterForward === 'number' && mesh.dpShard % reshardAfterForward !== 0) {
    found.push({
      path: ['parallel', 'reshardAfterForward'],
      message: `${reshardAfterForward} does not divide mesh.dpShard ${mesh.dpShard}; give a divisor of it, true or false`,
    });
  }
  return found;
}
