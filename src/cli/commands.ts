import type { Command } from 'commander';
import type { Io, Perform } from './io';

/** Adds the arguments, the options and the action of a command. */
export type Declare = (command: Command, perform: Perform, io: Io) => void;

/** A command as the list of commands shows it. Its module, which takes time and memory to load, is loaded when it is called. */
interface ListedCommand {
  readonly name: string;
  /** Its arguments, after the name. */
  readonly args?: string;
  readonly description: string;
  load(): Promise<Declare>;
}

/** The commands in the order of `shardlab --help`. */
export const COMMANDS: readonly ListedCommand[] = [
  {
    name: 'doctor',
    description: 'reports what this machine has, and how to add what is missing',
    load: async () => (await import('./doctor/command.js')).declareDoctor,
  },
  {
    name: 'engine',
    args: '[name]',
    description: 'lists engines; `engine torch` makes a Python environment with PyTorch',
    load: async () => (await import('./engine/command.js')).declareEngine,
  },
  {
    name: 'install',
    description: 'installs the Jupyter kernelspec',
    load: async () => (await import('./install/command.js')).declareInstall,
  },
  {
    name: 'uninstall',
    description: 'removes the Jupyter kernelspec',
    load: async () => (await import('./install/command.js')).declareUninstall,
  },
  {
    name: 'lab',
    args: '[folder-or-notebook]',
    description:
      'copies the notebooks into a folder, and opens JupyterLab with the first one; or opens a notebook',
    load: async () => (await import('./lab/command.js')).declareLab,
  },
  {
    name: 'run',
    args: '<config...>',
    description: 'trains without a notebook',
    load: async () => (await import('./run/command.js')).declareRun,
  },
  {
    name: 'sft',
    args: '[arguments...]',
    description:
      'trains on conversations, with the arguments of swift sft (LoRA or full) or swift rlhf (DPO)',
    load: async () => (await import('./sft/command.js')).declareSft,
  },
  {
    name: 'plan',
    args: '[config...]',
    description: 'predicts time and memory of a training on GPUs',
    load: async () => (await import('./plan/command.js')).declarePlan,
  },
  {
    name: 'recommend',
    description:
      'tries every legal layout of a model on some GPUs, ranks the layouts that fit, and says why the others are slower',
    load: async () => (await import('./recommend/command.js')).declareRecommend,
  },
  {
    name: 'reproduce',
    args: '[name]',
    description:
      'predicts published tables of times and memory again, and says which figures are inside the interval',
    load: async () => (await import('./reproduce/command.js')).declareReproduce,
  },
  {
    name: 'models',
    description: 'lists the models that configs and plans know by name, with sizes and sources',
    load: async () => (await import('./plan/known-command.js')).declareModels,
  },
  {
    name: 'gpus',
    description: 'lists the kinds of GPU that plans know by name, with figures and sources',
    load: async () => (await import('./plan/known-command.js')).declareGpus,
  },
  {
    name: 'claims',
    args: '[id...]',
    description: 'checks the statements of the documents; exits with status 1 if a verdict no longer holds',
    load: async () => (await import('./claims/command.js')).declareClaims,
  },
  {
    name: 'read',
    args: '<file-or-command...>',
    description: "says what each line of another program's settings or launch script means here",
    load: async () => (await import('./read/command.js')).declareRead,
  },
  {
    name: 'bench',
    args: '[command]',
    description: 'runs benchmarks, optionally against PyTorch or other kernels',
    load: async () => (await import('./bench/command.js')).declareBench,
  },
  {
    name: 'trace',
    args: '<file>',
    description: "converts a run's event file to a Perfetto / Chrome trace",
    load: async () => (await import('./trace/command.js')).declareTrace,
  },
  {
    name: 'export',
    args: '<config...>',
    description:
      'writes a folder that trains a config elsewhere: script, launch files, weights, data, report',
    load: async () => (await import('./export/command.js')).declareExport,
  },
  {
    name: 'launch-check',
    args: '<folder>',
    description: 'tries an exported folder here, as one of all its ranks, before a cluster runs it',
    load: async () => (await import('./launch-check/command.js')).declareLaunchCheck,
  },
  {
    name: 'assignment',
    args: '<notebook...>',
    description: 'copies notebooks for nbgrader, with a locked cell per exercise',
    load: async () => (await import('./assignment/command.js')).declareAssignment,
  },
  {
    name: 'grade',
    args: '<folder>',
    description: 'collects the answers of all students below a folder, as a table of points',
    load: async () => (await import('./grade/command.js')).declareGrade,
  },
  {
    name: 'completion',
    args: '<shell>',
    description: 'prints a script with which bash, zsh or fish completes commands and options',
    load: async () => {
      const { declareCompletion } = await import('./completion/command.js');
      return (command, perform, io) => declareCompletion(command, perform, { io, commands: COMMANDS });
    },
  },
];
