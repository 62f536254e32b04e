import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { wholeNumber } from '../arguments';
import { INSTALLATION } from '../install/kernelspec-folder';
import type { ExitStatus, Io, Output, Perform } from '../io';
import { copiedText, copyNotebooks } from './copy-notebooks';
import { executeNotebooks } from './execute';
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

/** `shardlab lab`: copies the notebooks, and opens JupyterLab with the quickstart, or executes the quickstart. */
export function declareLab(command: Command, perform: Perform, io: Io): void {
  command
    .argument('[folder]', 'folder for the notebooks', 'shardlab-notebooks')
    .option(
      '--execute',
      'runs the quickstart without a browser, and writes it with its outputs, also as HTML',
    )
    .option(
      '--output <dir>',
      "folder for the results of --execute (default: executed, in the notebooks' folder)",
    )
    .option('--ip <address>', 'address of JupyterLab', 'localhost')
    .option('--port <n>', 'port of JupyterLab, or the next free one', wholeNumber(1, 65_535), 8888)
    .option('--no-browser', 'only prints the address');
  perform<LabCommandOptions>(command, ([name = 'shardlab-notebooks'], options, output) =>
    lab(resolve(io.cwd, name), options, io, output),
  );
}

async function lab(folder: string, options: LabCommandOptions, io: Io, output: Output): Promise<ExitStatus> {
  const jupyter = await findJupyter(io.env);
  const copied = copyNotebooks(join(INSTALLATION, 'build', 'notebooks'), folder);
  output.note(copiedText(copied, folder));
  if (jupyter.written !== undefined)
    output.note('to have the kernel in your own Jupyter too: shardlab install');
  const executed = resolve(io.cwd, options.output ?? join(folder, 'executed'));
  const status = options.execute
    ? await executeNotebooks(
        jupyter,
        [join(folder, QUICKSTART)],
        { output: executed },
        { progressToStderr: output.json },
      )
    : await runJupyterLab(jupyter, {
        folder,
        notebook: QUICKSTART,
        log: join(folder, '.jupyter.log'),
        ip: options.ip,
        port: options.port,
        browser: options.browser && hasDisplay(io.env),
        rest: [],
        command: 'shardlab lab',
        say: io.stderr,
      });
  const results = options.execute && existsSync(executed) ? { executed } : {};
  if (output.json) output.answer({ folder, ...copied, ...results, status }, () => '');
  return status === 0 ? 0 : 1;
}
