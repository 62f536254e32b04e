"""jupyter_kernel_test's contract suite for the kernelspec named in SHARDLAB_KERNEL."""

import os
import unittest

import jupyter_kernel_test


class ShardlabKernelTests(jupyter_kernel_test.KernelTests):
    kernel_name = os.environ.get("SHARDLAB_KERNEL", "shardlab")
    language_name = "typescript"
    file_extension = ".ts"
    code_hello_world = "console.log('hello, world')"
    code_stderr = "console.error('test')"
    completion_samples = [{"text": "parseFl", "matches": {"parseFloat"}}]
    complete_code_samples = ["1", "const a = [1,2]", "type T = {a: number}"]
    incomplete_code_samples = ["function f(x: number) {", "const t = `open", "[1, 2,", "if (true) {"]
    invalid_code_samples = ["import = 7q", "const = = 1;"]
    code_page_something = "?parseInt"
    code_generate_error = "throw new Error('boom')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[1,2,3].map(n => n*n)", "result": "[ 1, 4, 9 ]"},
    ]
    code_display_data = [
        {"code": "import * as tslab from 'tslab'; tslab.display.html('<b>bold</b>')", "mime": "text/html"},
        {"code": "await display({ 'text/html': '<i>x</i>' }, { raw: true })", "mime": "text/html"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "parseInt"
    code_clear_output = "clearOutput()"


if __name__ == "__main__":
    unittest.main()
