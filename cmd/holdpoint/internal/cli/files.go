package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newFilesCmd(e *Env) *cobra.Command {
	return newGroup("files", "Files that are attached to calls", newFilesUploadCmd(e), newFilesDownloadCmd(e))
}

// fileFields are the lines about attached files.
func fileFields(files []client.AttachedFile) []string {
	var pairs []string
	for _, f := range files {
		pairs = append(pairs, "Attached", fmt.Sprintf("%s (%s, %d bytes), id %s, SHA-256 %s", f.Filename, f.ContentType, f.Size, f.FileID, f.SHA256))
	}
	return pairs
}

func newFilesUploadCmd(e *Env) *cobra.Command {
	var agent, contentType, name string
	cmd := &cobra.Command{
		Use: "upload FILE", Short: "Upload a file for an agent, and print its id",
		Long: `Upload a file, as an agent (with its key) or as a person who may act as one, and print its id. In the
arguments of a tool it is attached by "attachments": [{"file_id": "…"}]. A file that no call attaches
is deleted after a day.`,
		Example: "  holdpoint files upload invoice.pdf --agent billing",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return e.uploadFile(ctx, api, args[0], client.PresignUploadRequest{Agent: given(agent), Filename: name, ContentType: contentType})
		}),
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the agent, if the token is a person's")
	cmd.Flags().StringVar(&contentType, "type", "", "media type (default by the file's name, else application/octet-stream)")
	cmd.Flags().StringVar(&name, "name", "", "name of the attachment (default the file's name)")
	return cmd
}

func (e *Env) uploadFile(ctx context.Context, api *client.Client, path string, a client.PresignUploadRequest) error {
	content, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	defer content.Close()
	hash := sha256.New()
	if a.Size, err = io.Copy(hash, content); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	a.SHA256 = new(hex.EncodeToString(hash.Sum(nil)))
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if a.Filename == "" {
		a.Filename = filepath.Base(path)
	}
	if a.ContentType == "" {
		a.ContentType = mime.TypeByExtension(filepath.Ext(a.Filename))
	}
	if a.ContentType == "" {
		a.ContentType = "application/octet-stream"
	}
	to, err := client.Value(api.PresignUpload(ctx, a))
	if err != nil {
		return err
	}
	receipt, err := api.Upload(ctx, to, io.LimitReader(content, a.Size), a.Size)
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(receipt)
	}
	return write(e.Stdout, escapeCell(to.FileID)+"\n")
}

func newFilesDownloadCmd(e *Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "download CALL FILE", Short: "Save a file that is attached to a call",
		Long: `Save a file that is attached to a call. An existing file is never overwritten. "approvals show" names
the files. The download is recorded with your name.`,
		Example: "  holdpoint files download 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f12 --output invoice.pdf",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if output == "" {
				return misusef("--output: name the file to write")
			}
			file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("download: %w", err)
			}
			if err := errors.Join(api.DownloadFile(ctx, args[0], args[1], file), file.Close()); err != nil {
				return errors.Join(err, os.Remove(output)) // it is incomplete
			}
			return nil
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write")
	return cmd
}
