import type { OptimizerConfig, TrainConfig } from '../../config';

/** The class in torch.optim for each kind of optimizer that PyTorch has. */
const TORCH_OPTIMIZERS: Readonly<Partial<Record<OptimizerConfig['kind'], string>>> = {
  adamW: 'AdamW',
  adam: 'Adam',
  sgd: 'SGD',
};

/** Returns the class in torch.optim for a config's optimizer, and the arguments of the class. */
export function torchOptimizer({ optimizer }: TrainConfig) {
  const { kind, lr, betas, eps, weightDecay, amsgrad, maximize, momentum, nesterov } = optimizer;
  const own =
    kind === 'sgd'
      ? { ...(momentum > 0 && { momentum }), ...(nesterov && { nesterov }) }
      : { betas, eps, ...(amsgrad && { amsgrad }) };
  // The rules of targets refuse kinds that torch.optim does not have.
  const name = TORCH_OPTIMIZERS[kind] ?? kind;
  return { name, args: { lr, ...own, weight_decay: weightDecay, ...(maximize && { maximize }) } };
}
