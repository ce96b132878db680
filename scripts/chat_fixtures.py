#!/usr/bin/env python3
"""Makes tests/data/chat_templates.json: what transformers' `apply_chat_template` makes of conversations.

needs: pip install transformers jinja2

usage: chat_fixtures.py TEMPLATES OUT.json

The templates are those that model files of these families carry; the longer ones are read from TEMPLATES, which is
models/templates of llama.cpp (its sources come with the `llama-cpp-python` package). A conversation that a template refuses
has the message of its `raise_exception`.
"""
import json
import sys
from pathlib import Path

import jinja2
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

ALTERNATE = (
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
)
# name: (template, bos_token, eos_token)
TEMPLATES = {
    "llama2": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
        "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
        "{% set system_message = false %}{% endif %}{% for message in loop_messages %}" + ALTERNATE +
        "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + "
        "'\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
        "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
        "<s>", "</s>",
    ),
    "llama3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
        "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
        "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
        "<|begin_of_text|>", "<|end_of_text|>",
    ),
    "llama3.2": (
        """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- System message #}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
        "<|begin_of_text|>", "<|eot_id|>",
    ),
    "chatml": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        "<s>", "<|im_end|>",
    ),
    "qwen2": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
        "You are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
        "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}",
        None, "<|im_end|>",
    ),
    "qwen3": (
        """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
        None, "<|im_end|>",
    ),
    "mistral": (
        "{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}"
        "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}"
        "{% endif %}{% endfor %}",
        "<s>", "</s>",
    ),
    # TinyLlama's as well.
    "zephyr": (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
        "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
        "<s>", "</s>",
    ),
    # Of no family: what transformers adds to the language, and how Python writes values.
    "extensions": (
        "  {% for message in messages %}\n    {% if message.role == 'system' %}{% continue %}{% endif %}\n"
        "{%- generation -%} {{ message.content.upper().replace('A', 'b') }} {%- endgeneration %}\n"
        "    {% if loop.index > 3 %}\n      {% break %}\n    {% endif %}\n  {% endfor %}\n"
        "{{ none }} {{ true }} {{ add_generation_prompt }} {{ messages[0].get('name') }} {{ messages[0].get('name', 'x') }} "
        "{{ messages[0].name }}|{% for key, value in messages[-1].items() %}{{ key }}={{ value | length }};{% endfor %}\n"
        "{%+ if true +%}\nkept{% endif %}\n{# comment #}\n{{ tools is none }} {{ documents is none }} {{ tools is iterable }} {{ 'a' is iterable }} {{ no_such is iterable }} {{ 7 is iterable }} {{ 7 // 2 }} {{ 7 / 2 }} {{ -7 % 3 }} {{ 'a' ~ 1 }} "
        "{{ messages | map(attribute='role') | join(', ') }} {{ (messages | selectattr('role', 'equalto', 'user') | list)"
        " | length }}\n\n",
        "<s>", "</s>",
    ),
}
# name: (file, bos_token, eos_token)
PUBLISHED = {
    "llama3.1": ("meta-llama-Llama-3.1-8B-Instruct", "<|begin_of_text|>", "<|eot_id|>"),
    "qwen2.5": ("Qwen-Qwen2.5-7B-Instruct", None, "<|im_end|>"),
    "mistral-nemo": ("mistralai-Mistral-Nemo-Instruct-2407", "<s>", "</s>"),
    "deepseek-r1-distill": ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "<|begin_of_text|>", "<|end_of_text|>"),
}
CONVERSATIONS = [
    [("user", "Hello!")],
    [("system", "You are brief."), ("user", "  Who was Ada Lovelace?\n")],
    [("system", " Be kind.\n"), ("user", "Hi"), ("assistant", "<think>\nhm\n</think>\n\nHello, é 🦀! "), ("user", "</s> \"and\" <b>'you'</b>?")],
    [("user", "a"), ("user", "b")],
    [("user", "1"), ("assistant", "<think>x</think>2")],
    [("user", ""), ("assistant", ""), ("user", "{{ eos_token }}{% raw %}")],
]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "é <x> 'y'", "parameters": {}, "n": [1, 2.0, None]}}]


def call(name, identity, **arguments):
    return {"type": "function", "id": identity, "function": {"name": name, "arguments": arguments}}


ONE_CALL = [
    {"role": "user", "content": "How warm is it?"},
    {"role": "assistant", "content": None,
     "tool_calls": [call("f", "call00001", city="Malmö </s>", days=[1, 2.5], dry=True)]},
    {"role": "tool", "content": "21 °C", "name": "f", "tool_call_id": "call00001"},
]
TWO_CALLS = [
    {"role": "user", "content": "And there?"},
    {"role": "assistant", "content": "Let me see.",
     "tool_calls": [call("f", "call00002", a={}), call("g", "call00003")]},
    {"role": "tool", "content": "1", "tool_call_id": "call00002"},
    {"role": "tool", "content": "<2>", "tool_call_id": "call00003"},
    {"role": "assistant", "content": "One and two."},
    {"role": "user", "content": "Thanks"},
]
# name: conversations with more than roles and texts, which come with TOOLS
WITH_CALLS = {
    "llama3.1": [ONE_CALL, TWO_CALLS],
    "llama3.2": [ONE_CALL],
    "qwen2.5": [ONE_CALL, TWO_CALLS],
    "qwen3": [[{"role": "user", "content": "1"}, {"role": "assistant", "content": "2", "reasoning_content": "hm"}]],
    "mistral-nemo": [ONE_CALL, TWO_CALLS],
    "deepseek-r1-distill": [TWO_CALLS],
}
# name, conversation: variables
EXTRA = {
    ("qwen3", 0): [{"enable_thinking": False}, {"tools": TOOLS}],
    ("llama3.2", 1): [{"tools": TOOLS, "date_string": "1 Jan 2000"}],
    ("llama3.1", 1): [{"tools": TOOLS, "date_string": "1 Jan 2000"}, {"tools": TOOLS, "tools_in_user_message": False}],
    ("qwen2.5", 1): [{"tools": TOOLS}],
    ("mistral-nemo", 1): [{"tools": TOOLS}],
}


def render(template, bos, eos, messages, prompt, variables):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token=bos, eos_token=eos)
    try:
        text = tokenizer.apply_chat_template(
            messages, chat_template=template, add_generation_prompt=prompt, tokenize=False, **variables
        )
        return {"expected": text}
    except jinja2.exceptions.TemplateError as error:
        return {"refused": str(error)}


def main():
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    published = {name: ((folder / f"{file}.jinja").read_text(), *tokens) for name, (file, *tokens) in PUBLISHED.items()}
    families = []
    for name, (template, bos, eos) in {**TEMPLATES, **published}.items():
        cases = []
        for index, conversation in enumerate(CONVERSATIONS):
            messages = [{"role": role, "content": content} for role, content in conversation]
            for prompt, variables in [(True, {}), (False, {}), *((True, more) for more in EXTRA.get((name, index), []))]:
                case = {"messages": messages, "add_generation_prompt": prompt, "variables": variables}
                cases.append({**case, **render(template, bos, eos, messages, prompt, variables)})
        for messages in WITH_CALLS.get(name, []):
            variables = {"tools": TOOLS, "date_string": "1 Jan 2000"}
            case = {"messages": messages, "add_generation_prompt": True, "variables": variables}
            cases.append({**case, **render(template, bos, eos, messages, True, variables)})
        tokens = {"bos_token": bos, "eos_token": eos}
        families.append({"name": name, "template": template, "tokens": tokens, "cases": cases})
    with open(out, "w") as file:
        json.dump(families, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


main()
