"""The chat templates that Gyre knows, against transformers, which runs them: the same tokens, or a refusal in words.

The templates below are written in the shapes that models of these names have.  GYRE_TEMPLATES names a folder of further
ones, *.jinja, in which Gyre may refuse any, but never writes one otherwise than it says."""

import json
import os
import re
from pathlib import Path

import pytest

if "GYRE_JUDGES" not in os.environ:
    pytest.skip("ci/run judges runs it", allow_module_level=True)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from judges import tokenizer_files  # noqa: E402
from judges.gyre_command import Refused, gyre  # noqa: E402

ROLES = "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
SYSTEM_APART = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
                "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
                "{% set system_message = false %}{% endif %}")
CHATML = ("{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA_3_TURN = "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>'"
TEMPLATES = {
    "chatml": "{% for message in messages %}" + CHATML,
    "chatml, with a default": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
                              "{{ '<|im_start|>system\nYou are named Model.<|im_end|>\n' }}{% endif %}" + CHATML,
    "chatml, after a begin token": "{{ bos_token }}{% for message in messages %}" + CHATML,
    "phi-4": "{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|im_start|>system<|im_sep|>' + "
             "message['content'] + '<|im_end|>' }}{% elif message['role'] == 'user' %}{{ '<|im_start|>user<|im_sep|>' + "
             "message['content'] + '<|im_end|>' }}{% endif %}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
    "llama-3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = " + LLAMA_3_TURN + " %}"
               "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "llama-3.1": "{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- set date_string = \"26 Jul 2024\" %}\n"
                 "{%- endif %}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = "
                 "messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set "
                 "system_message = \"\" %}\n{%- endif %}\n{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n"
                 "{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n"
                 "{{- system_message }}\n{{- \"<|eot_id|>\" }}\n{%- for message in messages %}\n    {{- "
                 "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + "
                 "'<|eot_id|>' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- "
                 "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n",
    "llama-2": SYSTEM_APART + "{% for message in loop_messages %}" + ROLES + "{% if loop.index0 == 0 and system_message != "
               "false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}"
               "{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
               "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% endif %}{% endfor %}",
    "mistral-v1": "{{ bos_token }}{% for message in messages %}" + ROLES + "{% if message['role'] == 'user' %}"
                  "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% endfor %}",
    "mistral-v3": SYSTEM_APART + "{{ bos_token }}{% for message in loop_messages %}{% if message['role'] == 'user' %}"
                  "{% if loop.last and system_message %}{{ '[INST] ' + system_message + '\n\n' + message['content'] + '[/INST]' }}"
                  "{% else %}{{ '[INST] ' + message['content'] + '[/INST]' }}{% endif %}{% endif %}{% endfor %}",
    "mistral-tekken": SYSTEM_APART + "{{ bos_token }}{% for message in loop_messages %}{% if message['role'] == 'user' %}"
                      "{% if loop.last and system_message %}{{ '[INST]' + system_message + '\n\n' + message['content'] + '[/INST]' }}"
                      "{% else %}{{ '[INST]' + message['content'] + '[/INST]' }}{% endif %}{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
             "{% endif %}{% for message in messages %}{% set role = message['role'] %}{{ '<start_of_turn>' + role + '\n' + "
             "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}"
             "{{'<start_of_turn>model\n'}}{% endif %}",
    "gemma-3": "{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- set first_user_prefix = "
               "messages[0]['content'] + '\n\n' -%}\n    {%- set loop_messages = messages[1:] -%}\n{%- else -%}\n    {%- set "
               "first_user_prefix = \"\" -%}\n    {%- set loop_messages = messages -%}\n{%- endif -%}\n"
               "{%- for message in loop_messages -%}\n    {%- set role = message['role'] -%}\n    {{ '<start_of_turn>' + role + "
               "'\n' + (first_user_prefix if loop.first else \"\") }}\n    {{- message['content'] | trim -}}\n"
               "    {{ '<end_of_turn>\n' }}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n    {{'<start_of_turn>model\n'}}\n"
               "{%- endif -%}\n",
    "phi-3": "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + "
             "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + "
             "'<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
    "zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token "
              "}}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% endif %}\n"
              "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "tulu": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + "
            "message['content'] + '\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}"
            "{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}",
    "granite": "{% for message in messages %}{{ '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + "
               "'<|end_of_text|>\n' }}{% endfor %}{% if add_generation_prompt %}"
               "{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}",
}
SPECIAL = ("<bos>", "<eos>", "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>",
           "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")
QUESTIONS = [("What is it?", None), ("  Hi,\nthere!\n\n", None), ("x = [1,  2]", "Be brief."), ("\tWhy? ", " Say \n\n"),
             ("Größe: 你好", "👍🏽")]


def make_model(folder, kind):
    if kind == "bytes":
        tokenizer = tokenizer_files.byte_level(tokenizer_files.QWEN_2, special=SPECIAL)
    else:
        tokenizer = tokenizer_files.pieces(metaspace=kind == "metaspace", prepend="first")
        tokenizer.add_special_tokens([name for name in SPECIAL if "INST" not in name])
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = transformers.LlamaConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                      num_attention_heads=2, max_position_embeddings=512)
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["bytes", "pieces", "metaspace"])
def model(request, tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("chat") / request.param, request.param)


def set_template(folder, template, adds_begin=False):
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>",
                "add_bos_token": adds_begin, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def written(folder, question, system, *options):
    """The ids that Gyre writes, and the name of the template."""
    arguments = ["generate", folder, "--prompt", question, "--tokens", 1, "--json", "--context", 2048, *options]
    run = json.loads(gyre(*arguments, *(["--system", system] if system is not None else [])))
    return run["prompt_ids"], run["chat_template"]


def judged(folder, question, system):
    """The same by transformers, or the template's reason for not writing it."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    messages = ([{"role": "system", "content": system}] if system is not None else []) + [{"role": "user", "content": question}]
    # The date is stated: a template that asks for today's gets the one that it falls back to.
    out = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False,
                                        date_string="26 Jul 2024")
    return list(out)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(("question", "system"), QUESTIONS)
def test_known_template(model, name, question, system):
    set_template(model, TEMPLATES[name])
    try:
        expected = judged(model, question, system)
    except Exception:  # noqa: BLE001  (jinja2's, raised by the template)
        assert system is not None
        with pytest.raises(Refused, match="takes no system message"):
            written(model, question, system, "--chat")
        return
    ids, template = written(model, question, system, "--chat")
    assert template == name.split(",")[0]
    assert ids == expected
    if "default" not in name and "begin token" not in name and "bos_token" not in TEMPLATES[name]:
        assert written(model, question, system, "--chat-template", template)[0] == expected


def test_begin_token_comes_once(model):
    """Where the file adds one to every text; a template that writes it is not given another."""
    begin = json.loads((model / "tokenizer.json").read_text())
    begin = next(token["id"] for token in begin["added_tokens"] if token["content"] == "<bos>")
    for name in ("chatml", "chatml, after a begin token", "llama-3"):
        set_template(model, TEMPLATES[name], adds_begin=True)
        ids, _ = written(model, "Hi", None, "--chat")
        assert ids[0] == begin and ids.count(begin) == 1
        set_template(model, TEMPLATES[name], adds_begin=False)
        assert written(model, "Hi", None, "--chat")[0].count(begin) == ("bos_token" in TEMPLATES[name])


def test_a_question_ends_no_turn(model):
    """A token's name in a question is its characters, unless --special."""
    set_template(model, TEMPLATES["chatml"])
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    question = "Say <|im_end|> twice: <|im_end|>"
    ids, _ = written(model, question, None, "--chat")
    assert ids.count(end) == 1
    assert question + "<|im_end|>" in tokenizer.decode(ids)
    ids, _ = written(model, question, None, "--chat", "--special")
    assert ids == judged(model, question, None) and ids.count(end) == 3


def test_passkey_is_asked_in_a_chat(model):
    def prompt(*options):
        return json.loads(gyre("passkey", model, "--lengths", 480, "--depths", 1, "--trials", 1, "--json", *options))["prompt"]

    set_template(model, TEMPLATES["chatml"])
    asked = prompt()
    assert (asked["format"], asked["chat_template"]) == ("chat", "chatml")
    assert asked["question"] == "What is the pass key?" and "have a chat template" in asked["chosen"]
    assert prompt("--format", "words")["chat_template"] is None
    assert prompt("--format", "chat", "--question", "Which?")["question"] == "Which?"
    set_template(model, "{{ messages }}")
    asked = prompt()
    assert asked["format"] == "words" and "not one that Gyre knows" in asked["chosen"]
    assert prompt("--chat-template", "chatml")["format"] == "chat"
    with pytest.raises(Refused, match="not among those that Gyre knows"):
        prompt("--format", "chat")


def test_refusals(model):
    set_template(model, "{% for message in messages %}{{ message['content'] }}{% endfor %}")
    with pytest.raises(Refused, match="not among those that Gyre knows.*--chat-template"):
        written(model, "Hi", None, "--chat")
    set_template(model, None)
    with pytest.raises(Refused, match="the model's files have none; .*--chat-template"):
        written(model, "Hi", None, "--chat")
    with pytest.raises(Refused, match="is not one of"):
        written(model, "Hi", None, "--chat-template", "nonsense")
    assert written(model, "Hi", None, "--chat-template", "chatml")[1] == "chatml"


@pytest.mark.skipif("GYRE_TEMPLATES" not in os.environ, reason="GYRE_TEMPLATES names no folder of templates")
def test_templates_of_models(tmp_path):
    """Those of published models: known ones as transformers writes them, the others refused."""
    folder = make_model(tmp_path / "model", "bytes")
    known = []
    for path in sorted(Path(os.environ["GYRE_TEMPLATES"]).glob("*.jinja")):
        set_template(folder, path.read_text())
        for question, system in QUESTIONS:
            try:
                ids, template = written(folder, question, system, "--chat")
            except Refused as why:
                assert re.search("not among those that Gyre knows|takes no system message|has no token", str(why)), path
                continue
            assert ids == judged(folder, question, system), (path.name, question, system)
            known.append((path.stem, template))
    print("\n".join(f"{name}: {template}" for name, template in sorted(set(known))))
    assert known
