import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../../core';
import { wholeNumber } from '../arguments';
import { INSTALLATION } from '../install/kernelspec-folder';
import type { ExitStatus, Io, Output, Perform } from '../io';
import { type CopiedNotebooks, copiedText, copyNotebooks } from './copy-notebooks';
import { executeNotebooks, requireOutputFolder } from './execute';
import { findJupyter } from './find-jupyter';
import { hasDisplay, runJupyterLab } from './jupyter-lab';

const QUICKSTART = '00-quickstart.ipynb';

interface LabCommandOptions {
  readonly execute?: boolean;
  readonly output?: string;
  readonly ip?: string;
  readonly port?: number;
  readonly browser: boolean;
}

/** What is opened or executed. */
interface Place {
  readonly folder: string;
  /** A notebook of the folder. */
  readonly notebook: string;
  /** Whether the folder is for copies of our notebooks, and not the folder of a notebook that the user has named. */
  readonly isForCopies: boolean;
}

/**
 * `shardlab lab`: copies the notebooks, and opens JupyterLab with the quickstart, or opens a notebook that is named; with --execute,
 * executes the quickstart or this notebook.
 */
export function declareLab(command: Command, perform: Perform, io: Io): void {
  command
    .argument(
      '[folder-or-notebook]',
      'folder into which the notebooks are copied, or a notebook (.ipynb), which is opened and copied nowhere',
      'shardlab-notebooks',
    )
    .option(
      '--execute',
      'runs the quickstart, or the named notebook, without a browser, and writes it with its outputs, also as HTML',
    )
    .option(
      '--output <dir>',
      "folder for the results of --execute (default: executed, in the notebooks' folder)",
    )
    .option('--ip <address>', 'address of JupyterLab', 'localhost')
    .option('--port <n>', 'port of JupyterLab, or the next free one', wholeNumber(1, 65_535), 8888)
    .option('--no-browser', 'only prints the address');
  perform<LabCommandOptions>(command, ([name = 'shardlab-notebooks'], options, output) =>
    lab(placeNamed(name, io.cwd), options, io, output),
  );
}

/** Throws: CONFIG for a notebook that does not exist. */
function placeNamed(name: string, cwd: string): Place {
  const path = resolve(cwd, name);
  if (!/\.ipynb$/i.test(path)) return { folder: path, notebook: QUICKSTART, isForCopies: true };
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined)
    throw new ConfigError(
      `there is no notebook ${name}; name one that exists, or a folder, into which the notebooks are copied`,
    );
  return stats.isDirectory()
    ? { folder: path, notebook: QUICKSTART, isForCopies: true }
    : { folder: dirname(path), notebook: basename(path), isForCopies: false };
}

async function lab(place: Place, options: LabCommandOptions, io: Io, output: Output): Promise<ExitStatus> {
  const { folder, notebook } = place;
  const executed = resolve(io.cwd, options.output ?? join(folder, 'executed'));
  if (options.output !== undefined && options.execute !== true)
    throw new ConfigError('--output belongs to --execute; give both');
  if (options.execute === true && executed === folder)
    throw new ConfigError(
      `--output ${options.output ?? ''} is the folder of ${notebook}, which its result would overwrite; name another folder`,
    );
  if (options.output !== undefined) requireOutputFolder(executed);
  const jupyter = await findJupyter(io.env);
  const copied = copiesFor(place, output);
  if (jupyter.written !== undefined)
    output.note('to have the kernel in your own Jupyter too: shardlab install');
  const status = options.execute
    ? await executeNotebooks(
        jupyter,
        [join(folder, notebook)],
        { output: executed },
        { progressToStderr: output.json },
      )
    : await runJupyterLab(jupyter, {
        folder,
        notebook,
        log: join(folder, '.jupyter.log'),
        ip: options.ip,
        port: options.port,
        browser: options.browser && hasDisplay(io.env),
        rest: [],
        command: 'shardlab lab',
        say: io.stderr,
      });
  const results = options.execute && existsSync(executed) ? { executed } : {};
  if (output.json) output.answer({ folder, ...(copied ?? { notebook }), ...results, status }, () => '');
  return status === 0 ? 0 : 1;
}

/** Copies the notebooks into the folder, if it is for copies, and says so. */
function copiesFor({ folder, isForCopies }: Place, output: Output): CopiedNotebooks | undefined {
  if (!isForCopies) return undefined;
  const copied = copyNotebooks(join(INSTALLATION, 'build', 'notebooks'), folder);
  output.note(copiedText(copied, folder));
  return copied;
}
