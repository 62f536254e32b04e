import commander from './commander.json';
import phrases from './phrases.json';
import cell from './tables/cell.json';
import claims from './tables/claims.json';
import cli from './tables/cli.json';
import config from './tables/config.json';
import core from './tables/core.json';
import engine from './tables/engine.json';
import extras from './tables/extras.json';
import figures from './tables/figures.json';
import kernel from './tables/kernel.json';
import launch from './tables/launch.json';
import ledger from './tables/ledger.json';
import nn from './tables/nn.json';
import planner from './tables/planner.json';
import programs from './tables/programs.json';
import session from './tables/session.json';
import sharding from './tables/sharding.json';
import torch from './tables/torch.json';
import training from './tables/training.json';
import wire from './tables/wire.json';

/**
 * First sentences of errors, and phrases within them, with their translations: a table per folder of the code, one for
 * commander's messages, and one for texts that the code puts together in ways that test/core/chinese does not follow.
 */
export const TABLES: readonly Readonly<Record<string, string>>[] = [
  commander,
  phrases,
  cell,
  claims,
  cli,
  config,
  core,
  engine,
  extras,
  figures,
  kernel,
  launch,
  ledger,
  nn,
  planner,
  programs,
  session,
  sharding,
  torch,
  training,
  wire,
];
